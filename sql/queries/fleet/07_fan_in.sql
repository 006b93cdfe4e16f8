-- Fan-in: how many senders bursts have at once, and in which pattern, by service, direction, link speed and width of
-- bins.
--
--   fan_in                 0: no sender is known. share is the share of the bursts of the class
--   effective_sources_p50  median (nearest rank) over the bursts of this fan-in and pattern
WITH placed AS (
    SELECT COALESCE(service, '') AS service, direction, link_bps, bin_ns, fan_in, pattern, effective_sources,
           COUNT(*) OVER (PARTITION BY COALESCE(service, ''), direction, link_bps, bin_ns) AS of_class,
           COUNT(effective_sources) OVER (
               PARTITION BY COALESCE(service, ''), direction, link_bps, bin_ns, fan_in, pattern) AS n,
           ROW_NUMBER() OVER (PARTITION BY COALESCE(service, ''), direction, link_bps, bin_ns, fan_in, pattern
                              ORDER BY effective_sources NULLS LAST) AS place
    FROM bursts CROSS JOIN asked LEFT JOIN inventory ON bursts.rack = inventory.rack AND bursts.host = inventory.host
    WHERE start_ns >= since_ns AND start_ns < until_ns
)
SELECT service,
       direction,
       link_bps,
       bin_ns,
       fan_in,
       COUNT(*) AS bursts,
       CAST(COUNT(*) AS DOUBLE) / CAST(MAX(of_class) AS DOUBLE) AS share,
       pattern,
       MIN(CASE WHEN place * 2 >= n AND place <= n THEN effective_sources END) AS effective_sources_p50
FROM placed GROUP BY service, direction, link_bps, bin_ns, fan_in, pattern
ORDER BY service, direction, link_bps, bin_ns, fan_in, pattern
