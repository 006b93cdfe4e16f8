-- Switch drops: what the queue of the switch port of each host dropped, and how much of it while the host received a
-- burst.
--
--   semantics             of the windows of a queue: of several kinds, the one with the most windows
--   windows               windows of the queue in which the host was recorded and the device reported drops
--   drops                 packets that were dropped in them
--   drops_in_bursts       of these, packets in windows that touch a burst which the host received; drops_in_burst_share
--                         is their share
--   relative_risk         how many times as often a window has drops if it touches a burst; NULL if no window touches
--                         one, if all do, or if no other window has drops
--   relative_risk_low     the 95 % interval of relative_risk, with windows taken as independent (MOVER, of Wilson's
--                         intervals). It is known also if no other window has drops: a window has drops at least
--                         relative_risk_low times as often, and relative_risk_high is NULL. Both are NULL if no window
--                         touches a burst, or all do
--   cause                 why probes that cross the port of the host behind this queue were late: bursts, host,
--                         elsewhere, none (they were not) or undetermined, from `mburst investigate` (`verdicts`); of
--                         several days, or parts of a day, the one with the most lateness. NULL: no probes, or not
--                         investigated
--   excess_share          from the same verdict: the share of the latency beyond the median that lies in bursts of that
--                         port
--   summary               the same verdict in words
WITH sums AS (
    SELECT device, port, queue, rack, host, interface, semantics, SUM(windows) AS windows, SUM(lossy_windows) AS lossy_windows,
           SUM(drops) AS drops, SUM(burst_windows) AS burst_windows, SUM(lossy_burst_windows) AS lossy_burst_windows,
           SUM(burst_drops) AS burst_drops
    FROM queue_drops CROSS JOIN asked WHERE hour_ns >= since_ns AND hour_ns < until_ns
    GROUP BY device, port, queue, rack, host, interface, semantics
), placed AS (
    SELECT sums.*, windows - burst_windows AS other_windows, lossy_windows - lossy_burst_windows AS lossy_other_windows,
           ROW_NUMBER() OVER (PARTITION BY device, port, queue, rack, host, interface ORDER BY windows DESC, semantics) AS place
    FROM sums
), by_lateness AS (  -- first those with a latency tail, then those for which that is not known; within both, the most lateness first
    SELECT verdicts.*, ROW_NUMBER() OVER (
        ORDER BY CASE WHEN has_tail THEN 0 WHEN has_tail IS NULL THEN 1 ELSE 2 END, COALESCE(excess_ns, -1) DESC, host, start_ns, rack
    ) AS lateness_place
    FROM verdicts
), investigated AS (
    SELECT rack, host, interface, cause, excess_share, summary, lateness_place
    FROM by_lateness CROSS JOIN asked
    WHERE start_ns >= since_ns AND start_ns < until_ns AND COALESCE(direction, '') <> 'out'
), explained AS (
    SELECT placed.*, cause, excess_share, summary,
           ROW_NUMBER() OVER (PARTITION BY device, port, queue, placed.rack, placed.host, placed.interface
                              ORDER BY lateness_place) AS rank_of_verdict
    FROM placed LEFT JOIN investigated ON investigated.rack = placed.rack AND investigated.host = placed.host
        AND (investigated.interface = placed.interface OR placed.interface = '' OR investigated.interface IS NULL)
    WHERE place = 1
), shares AS (
    SELECT explained.*, CAST(NULLIF(burst_windows, 0) AS DOUBLE) AS n, CAST(NULLIF(other_windows, 0) AS DOUBLE) AS other_n,
           CAST(lossy_burst_windows AS DOUBLE) / CAST(NULLIF(burst_windows, 0) AS DOUBLE) AS share,
           CAST(lossy_other_windows AS DOUBLE) / CAST(NULLIF(other_windows, 0) AS DOUBLE) AS other_share,
           1.959964e0 * 1.959964e0 AS zz
    FROM explained WHERE rank_of_verdict = 1
), wilson AS (
    SELECT shares.*,
           GREATEST(0e0, (share + zz / (2e0 * n) - SQRT(zz * (share * (1e0 - share) / n + zz / (4e0 * n * n)))) / (1e0 + zz / n))
               AS low,
           LEAST(1e0, (share + zz / (2e0 * n) + SQRT(zz * (share * (1e0 - share) / n + zz / (4e0 * n * n)))) / (1e0 + zz / n))
               AS high,
           GREATEST(0e0, (other_share + zz / (2e0 * other_n)
               - SQRT(zz * (other_share * (1e0 - other_share) / other_n + zz / (4e0 * other_n * other_n)))) / (1e0 + zz / other_n))
               AS other_low,
           LEAST(1e0, (other_share + zz / (2e0 * other_n)
               + SQRT(zz * (other_share * (1e0 - other_share) / other_n + zz / (4e0 * other_n * other_n)))) / (1e0 + zz / other_n))
               AS other_high
    FROM shares
), parts AS (
    SELECT wilson.*, share * other_share AS product, low * (2e0 * share - low) AS part, high * (2e0 * share - high) AS other_part,
           other_high * (2e0 * other_share - other_high) AS divisor, other_low * (2e0 * other_share - other_low) AS other_divisor
    FROM wilson
)
SELECT device,
       port,
       queue,
       rack,
       host,
       interface,
       semantics,
       CAST(windows AS BIGINT) AS windows,
       CAST(drops AS BIGINT) AS drops,
       CAST(burst_drops AS BIGINT) AS drops_in_bursts,
       CAST(burst_drops AS DOUBLE) / CAST(NULLIF(drops, 0) AS DOUBLE) AS drops_in_burst_share,
       CAST(lossy_burst_windows AS DOUBLE) * CAST(other_windows AS DOUBLE)
           / (CAST(NULLIF(burst_windows, 0) AS DOUBLE) * CAST(NULLIF(lossy_other_windows, 0) AS DOUBLE)) AS relative_risk,
       CASE WHEN share = 0e0 AND other_n IS NOT NULL THEN 0e0
           ELSE part / (product + SQRT(GREATEST(product * product - part * divisor, 0e0))) END AS relative_risk_low,
       CASE WHEN lossy_other_windows > 0
           THEN (product + SQRT(GREATEST(product * product - other_part * other_divisor, 0e0))) / other_divisor END AS relative_risk_high,
       cause,
       excess_share,
       summary
FROM parts
ORDER BY drops DESC, device, port, queue, rack, host, interface
