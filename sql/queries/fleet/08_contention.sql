-- Contention: for how long in each hour how many hosts of a rack were in a burst at once.
--
--   hour_ns        start of the hour; ns is time in which a host of the rack was recorded, and share is the share of
--                  that time
--   hosts_at_once  hosts that were receiving a burst, 0 included
--   p90            the number of hosts in a burst at once that is not exceeded in 90 % of that time of the hour
--   buffer_share   share of a shared buffer with dynamic thresholds that one queue can have if so many take part:
--                  α / (1 + α n), with α = 1 (Choudhury and Hahne 1998, IEEE/ACM Trans. Networking 6)
WITH setting AS (
    SELECT 1e0 AS alpha
), times AS (
    SELECT rack, hour_ns, bursting, SUM(ns) AS ns FROM contention CROSS JOIN asked
    WHERE hour_ns >= since_ns AND hour_ns < until_ns GROUP BY rack, hour_ns, bursting
), summed AS (
    SELECT rack, hour_ns, bursting, ns, SUM(ns) OVER (PARTITION BY rack, hour_ns ORDER BY bursting) AS at_most,
           SUM(ns) OVER (PARTITION BY rack, hour_ns) AS of_hour
    FROM times
), quantiles AS (
    SELECT rack, hour_ns, MIN(CASE WHEN at_most * 10 >= of_hour * 9 THEN bursting END) AS p90
    FROM summed GROUP BY rack, hour_ns
)
SELECT summed.rack,
       summed.hour_ns,
       bursting AS hosts_at_once,
       CAST(ns AS BIGINT) AS ns,
       CAST(ns AS DOUBLE) / CAST(of_hour AS DOUBLE) AS share,
       p90,
       alpha / (1e0 + alpha * bursting) AS buffer_share
FROM summed JOIN quantiles ON summed.rack = quantiles.rack AND summed.hour_ns = quantiles.hour_ns CROSS JOIN setting
ORDER BY summed.rack, summed.hour_ns, hosts_at_once
