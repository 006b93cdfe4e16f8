-- Markov: how likely a bin is hot after a hot bin and after another bin, by service, direction, link speed and width of
-- bins.
--
--   ratio  p_hot_after_hot / p_hot_after_cold: 1 if bins are independent. NULL if one of them is of no bin, or the
--          second is 0
--   bins   recorded bins, idle ones included
WITH sums AS (
    SELECT COALESCE(service, '') AS service, direction, link_bps, bin_ns, CAST(SUM(hot_hot) AS DOUBLE) AS hot_hot,
           CAST(SUM(hot_cold) AS DOUBLE) AS hot_cold, CAST(SUM(cold_hot) AS DOUBLE) AS cold_hot,
           CAST(SUM(pairs) AS DOUBLE) AS pairs, CAST(SUM(bins) AS BIGINT) AS bins
    FROM hours CROSS JOIN asked LEFT JOIN inventory ON hours.rack = inventory.rack AND hours.host = inventory.host
    WHERE hour_ns >= since_ns AND hour_ns < until_ns
    GROUP BY COALESCE(service, ''), direction, link_bps, bin_ns
), likely AS (
    SELECT service, direction, link_bps, bin_ns, bins, hot_hot / NULLIF(hot_hot + hot_cold, 0e0) AS after_hot,
           cold_hot / NULLIF(pairs - hot_hot - hot_cold, 0e0) AS after_cold
    FROM sums
)
SELECT service,
       direction,
       link_bps,
       bin_ns,
       after_hot AS p_hot_after_hot,
       after_cold AS p_hot_after_cold,
       after_hot / NULLIF(after_cold, 0e0) AS ratio,
       bins
FROM likely ORDER BY service, direction, link_bps, bin_ns
