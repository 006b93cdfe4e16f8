-- For how long in each hour how many hosts of a rack were in a burst at once, and how many were recorded. Only bursts
-- that a host receives count, on any of its interfaces; bursts that it sends do not. A switch port stands in for the
-- host behind it (under its own name if no link names the host) while that host has no recording of what it receives
-- there. Reads the tables that bursts.sql and cells.sql create.
WITH heard AS (
    SELECT rack, receiver AS host, start_ns, end_ns, 1 AS hosts, 0 AS bursting
    FROM (SELECT recording_id, start_ns, end_ns FROM recorded_times) JOIN lanes USING (recording_id) WHERE receiver IS NOT NULL
    UNION ALL
    SELECT rack, receiver, start_ns, end_ns, 0, 1 FROM recorded_bursts WHERE receiver IS NOT NULL
), reached AS (
    SELECT *, max(end_ns) OVER earlier AS reached_ns FROM heard
    WINDOW earlier AS (PARTITION BY rack, host, bursting ORDER BY start_ns, end_ns
                       ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)
), placed AS (
    SELECT *, sum(CAST(coalesce(start_ns > reached_ns, true) AS INTEGER))
        OVER (PARTITION BY rack, host, bursting ORDER BY start_ns, end_ns) AS place FROM reached  -- no ROWS: rows with the same start and end have one place
), times AS (  -- when each host was recorded, and when it was in a burst, without overlaps
    SELECT rack, min(start_ns) AS start_ns, max(end_ns) AS end_ns, hosts, bursting FROM placed
    GROUP BY rack, host, hosts, bursting, place
), clipped AS (
    SELECT rack, greatest(start_ns, getvariable('span_since_ns')) AS start_ns, least(end_ns, getvariable('span_until_ns')) AS end_ns,
           hosts, bursting
    FROM times WHERE start_ns < getvariable('span_until_ns') AND end_ns > getvariable('span_since_ns')
), edges AS (
    SELECT rack, start_ns AS at_ns, hosts, bursting FROM clipped
    UNION ALL SELECT rack, end_ns, -hosts, -bursting FROM clipped
    UNION ALL  -- an hour splits an interval, and changes nothing
    SELECT rack, unnest(range(bin_start(min(start_ns), 3600000000000), max(end_ns), 3600000000000)), 0, 0 FROM clipped GROUP BY rack
), changes AS (
    SELECT rack, at_ns, sum(hosts) AS hosts, sum(bursting) AS bursting FROM edges GROUP BY rack, at_ns
), steps AS (
    SELECT rack, at_ns, lead(at_ns) OVER running - at_ns AS ns, sum(hosts) OVER running AS hosts,
           sum(bursting) OVER running AS bursting
    FROM changes WINDOW running AS (PARTITION BY rack ORDER BY at_ns)
)
SELECT rack,                                    -- VARCHAR: as in `recordings`
       bin_start(at_ns, 3600000000000) AS hour_ns,  -- BIGINT: when the hour begins
       CAST(hosts AS INTEGER) AS hosts,         -- INTEGER: hosts that were recorded
       CAST(bursting AS INTEGER) AS bursting,   -- INTEGER: of these, hosts in a burst
       CAST(sum(ns) AS BIGINT) AS ns            -- BIGINT: for how long
FROM steps WHERE hosts > 0 AND ns > 0
GROUP BY ALL ORDER BY rack, hour_ns, hosts, bursting;
