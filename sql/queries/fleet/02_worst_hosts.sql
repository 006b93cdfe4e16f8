-- Worst hosts: which hosts receive bursts for the largest share of their recorded time, and which did a week before.
--
--   bursts_per_h        bursts for each hour that an interface was recorded
--   burst_share         share of the recorded time of the interfaces that is in bursts
--   p99_ns              p99 (nearest rank) of the durations of its bursts; NULL for fewer than 100 bursts, as
--                       known_quantile of sql/macros.sql
--   max_fan_in          largest fan-in of its bursts; NULL if no sender is known
--   retransmits_per_gb  for each 10^9 bytes on the wire, in bursts or not, in hours in which they were counted
--   rank                by burst_share, then by bursts_per_h; rank_last_week is the rank for the same time seven days
--                       before
WITH weeks AS (
    SELECT 0 AS week, since_ns, until_ns FROM asked
    UNION ALL SELECT 1 AS week, since_ns - 604800000000000, until_ns - 604800000000000 FROM asked
), sums AS (
    SELECT week, rack, host, CAST(SUM(bursts) AS DOUBLE) / (CAST(SUM(recorded_ns) AS DOUBLE) / 3600e9) AS bursts_per_h,
           CAST(SUM(burst_ns) AS DOUBLE) / CAST(SUM(recorded_ns) AS DOUBLE) AS burst_share,
           CAST(SUM(retransmits) AS DOUBLE) * 1e9
               / CAST(NULLIF(SUM(CASE WHEN retransmits IS NOT NULL THEN wire_bytes END), 0) AS DOUBLE) AS retransmits_per_gb
    FROM hours JOIN weeks ON hour_ns >= since_ns AND hour_ns < until_ns
    WHERE direction <> 'out' GROUP BY week, rack, host HAVING SUM(recorded_ns) > 0
), ranked AS (
    SELECT week, rack, host, bursts_per_h, burst_share, retransmits_per_gb,
           RANK() OVER (PARTITION BY week ORDER BY burst_share DESC, bursts_per_h DESC) AS place
    FROM sums
), placed AS (
    SELECT rack, host, duration_ns, fan_in, COUNT(*) OVER (PARTITION BY rack, host) AS n,
           ROW_NUMBER() OVER (PARTITION BY rack, host ORDER BY duration_ns) AS place
    FROM bursts CROSS JOIN asked WHERE start_ns >= since_ns AND start_ns < until_ns AND direction <> 'out'
), largest AS (
    SELECT rack, host, MIN(CASE WHEN n >= 100 AND place * 100 >= n * 99 THEN duration_ns END) AS p99_ns,
           MAX(NULLIF(fan_in, 0)) AS max_fan_in
    FROM placed GROUP BY rack, host
)
SELECT now.rack,
       now.host,
       now.bursts_per_h,
       now.burst_share,
       largest.p99_ns,
       largest.max_fan_in,
       now.retransmits_per_gb,
       now.place AS rank,
       before.place AS rank_last_week
FROM (SELECT * FROM ranked WHERE week = 0) AS now
LEFT JOIN (SELECT * FROM ranked WHERE week = 1) AS before ON now.rack = before.rack AND now.host = before.host
LEFT JOIN largest ON now.rack = largest.rack AND now.host = largest.host
ORDER BY now.place, now.rack, now.host
