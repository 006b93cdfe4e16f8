-- Durations: the cumulative distribution of burst durations, by service, direction, link speed and width of bins.
--
--   bursts_at_most  bursts of the class that last duration_ns or less; share is their share of all bursts of the class
WITH counted AS (
    SELECT COALESCE(service, '') AS service, direction, link_bps, bin_ns, duration_ns, COUNT(*) AS bursts
    FROM bursts CROSS JOIN asked LEFT JOIN inventory ON bursts.rack = inventory.rack AND bursts.host = inventory.host
    WHERE start_ns >= since_ns AND start_ns < until_ns
    GROUP BY COALESCE(service, ''), direction, link_bps, bin_ns, duration_ns
), summed AS (
    SELECT service, direction, link_bps, bin_ns, duration_ns,
           SUM(bursts) OVER (PARTITION BY service, direction, link_bps, bin_ns ORDER BY duration_ns) AS at_most,
           SUM(bursts) OVER (PARTITION BY service, direction, link_bps, bin_ns) AS n
    FROM counted
)
SELECT service,
       direction,
       link_bps,
       bin_ns,
       duration_ns,
       CAST(at_most AS BIGINT) AS bursts_at_most,
       CAST(at_most AS DOUBLE) / CAST(n AS DOUBLE) AS share
FROM summed ORDER BY service, direction, link_bps, bin_ns, duration_ns
