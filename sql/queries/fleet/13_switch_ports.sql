-- Switch ports: which ports carry bursts for the largest share of their recorded time, and for which hosts.
--
--   rack, device, port  of the device; port is its interface
--   direction        as the switch sees it: `out` is towards the attached host
--   attached_host    the host that links name behind the port, and attached_interface its interface ('': any); NULL if
--                    none is known. A port to which another host was attached on another day has a row for each
--   host_recorded    whether what that host receives there was recorded on the host itself, on any of these days; NULL
--                    if attached_host is NULL
--   recorded_ns      time that was recorded
--   bursts, bursts_per_h, burst_share  bursts, bursts for each hour of that time, and the share of that time in bursts
--   p99_ns           p99 (nearest rank) of the durations of its bursts; NULL for fewer than 100 bursts, as
--                    known_quantile of sql/macros.sql
--   peak_utilization the fullest bin of its bursts, as a share of line rate
--   losing_share     share of the recorded bins in which samples are missing: their counts are lower bounds
--   rank             by burst_share, then by bursts_per_h
WITH asked_hours AS (
    SELECT * FROM port_hours CROSS JOIN asked WHERE hour_ns >= since_ns AND hour_ns < until_ns AND recorded_ns > 0
), sums AS (
    SELECT rack, host, interface, direction, COALESCE(attached_host, '') AS behind, COALESCE(attached_interface, '') AS entry,
           SUM(recorded_ns) AS recorded_ns, SUM(bursts) AS bursts, SUM(burst_ns) AS burst_ns, SUM(bins) AS bins,
           SUM(losing_bins) AS losing_bins
    FROM asked_hours
    GROUP BY rack, host, interface, direction, COALESCE(attached_host, ''), COALESCE(attached_interface, '')
), own AS (
    SELECT DISTINCT date, rack, host, interface FROM hours WHERE direction <> 'out' AND recorded_ns > 0
), beside AS (
    SELECT DISTINCT asked_hours.rack, asked_hours.host, asked_hours.interface, direction, attached_host, attached_interface
    FROM asked_hours JOIN own ON asked_hours.date = own.date AND asked_hours.rack = own.rack
        AND asked_hours.attached_host = own.host AND asked_hours.attached_interface IN ('', own.interface)
), placed AS (
    SELECT rack, host, interface, direction, COALESCE(attached_host, '') AS behind, COALESCE(attached_interface, '') AS entry,
           duration_ns, peak_utilization,
           COUNT(*) OVER (PARTITION BY rack, host, interface, direction, attached_host, attached_interface) AS n,
           ROW_NUMBER() OVER (PARTITION BY rack, host, interface, direction, attached_host, attached_interface
                              ORDER BY duration_ns) AS place
    FROM port_bursts CROSS JOIN asked WHERE start_ns >= since_ns AND start_ns < until_ns
), largest AS (
    SELECT rack, host, interface, direction, behind, entry,
           MIN(CASE WHEN n >= 100 AND place * 100 >= n * 99 THEN duration_ns END) AS p99_ns, MAX(peak_utilization) AS peak_utilization
    FROM placed GROUP BY rack, host, interface, direction, behind, entry
), rated AS (
    SELECT sums.*, CAST(bursts AS DOUBLE) / (CAST(recorded_ns AS DOUBLE) / 3600e9) AS bursts_per_h,
           CAST(burst_ns AS DOUBLE) / CAST(recorded_ns AS DOUBLE) AS burst_share
    FROM sums
)
SELECT rated.rack,
       rated.host AS device,
       rated.interface AS port,
       rated.direction,
       NULLIF(rated.behind, '') AS attached_host,
       CASE WHEN rated.behind <> '' THEN rated.entry END AS attached_interface,
       CASE WHEN rated.behind <> '' THEN beside.host IS NOT NULL END AS host_recorded,
       CAST(rated.recorded_ns AS BIGINT) AS recorded_ns,
       CAST(rated.bursts AS BIGINT) AS bursts,
       rated.bursts_per_h,
       rated.burst_share,
       largest.p99_ns,
       largest.peak_utilization,
       CAST(rated.losing_bins AS DOUBLE) / CAST(NULLIF(rated.bins, 0) AS DOUBLE) AS losing_share,
       RANK() OVER (ORDER BY rated.burst_share DESC, rated.bursts_per_h DESC) AS rank
FROM rated
LEFT JOIN largest ON rated.rack = largest.rack AND rated.host = largest.host AND rated.interface = largest.interface
    AND rated.direction = largest.direction AND rated.behind = largest.behind AND rated.entry = largest.entry
LEFT JOIN beside ON rated.rack = beside.rack AND rated.host = beside.host AND rated.interface = beside.interface
    AND rated.direction = beside.direction AND rated.behind = beside.attached_host AND rated.entry = beside.attached_interface
ORDER BY rank, rated.rack, rated.host, rated.interface, rated.direction, rated.behind, rated.entry
