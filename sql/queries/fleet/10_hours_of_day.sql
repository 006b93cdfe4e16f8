-- Hours of the day: how many bursts each rack receives in each hour, and whether the day resembles the day before.
--
--   bursts_per_h       bursts for each hour that an interface was recorded
--   p50_fan_in         median (nearest rank) fan-in of its bursts with known senders
--   contention_p90     number of hosts in a burst at once that is not exceeded in 90 % of the recorded time; NULL if it
--                      is not known
--   r_with_day_before  Pearson's correlation of bursts_per_h with that of the same hours of the day before, over the
--                      hours that both days have; NULL for fewer than three, or if one of the days has the same rate
--                      all day
WITH rates AS (
    SELECT rack, hour_ns, CAST(SUM(bursts) AS DOUBLE) / (CAST(SUM(recorded_ns) AS DOUBLE) / 3600e9) AS bursts_per_h
    FROM hours WHERE direction <> 'out' GROUP BY rack, hour_ns HAVING SUM(recorded_ns) > 0
), asked_rates AS (
    SELECT rack, hour_ns, hour_ns - MOD(hour_ns, 86400000000000) AS day_ns, bursts_per_h FROM rates CROSS JOIN asked
    WHERE hour_ns >= since_ns AND hour_ns < until_ns
), days AS (
    SELECT asked_rates.rack, asked_rates.day_ns, COUNT(*) AS n, CORR(asked_rates.bursts_per_h, rates.bursts_per_h) AS r,
           LEAST(STDDEV_POP(asked_rates.bursts_per_h), STDDEV_POP(rates.bursts_per_h)) AS least_spread
    FROM asked_rates JOIN rates ON asked_rates.rack = rates.rack AND asked_rates.hour_ns - 86400000000000 = rates.hour_ns
    GROUP BY asked_rates.rack, asked_rates.day_ns
), placed AS (
    SELECT rack, start_ns - MOD(start_ns, 3600000000000) AS hour_ns, fan_in,
           ROW_NUMBER() OVER (PARTITION BY rack, start_ns - MOD(start_ns, 3600000000000) ORDER BY fan_in) AS place,
           COUNT(*) OVER (PARTITION BY rack, start_ns - MOD(start_ns, 3600000000000)) AS n
    FROM bursts CROSS JOIN asked WHERE start_ns >= since_ns AND start_ns < until_ns AND direction <> 'out' AND fan_in > 0
), fan_ins AS (
    SELECT rack, hour_ns, MIN(CASE WHEN place * 2 >= n THEN fan_in END) AS p50 FROM placed GROUP BY rack, hour_ns
), times AS (
    SELECT rack, hour_ns, bursting, SUM(ns) AS ns FROM contention GROUP BY rack, hour_ns, bursting
), summed AS (
    SELECT rack, hour_ns, bursting, SUM(ns) OVER (PARTITION BY rack, hour_ns ORDER BY bursting) AS at_most,
           SUM(ns) OVER (PARTITION BY rack, hour_ns) AS of_hour
    FROM times
), quantiles AS (
    SELECT rack, hour_ns, MIN(CASE WHEN at_most * 10 >= of_hour * 9 THEN bursting END) AS p90
    FROM summed GROUP BY rack, hour_ns
)
SELECT asked_rates.rack,
       asked_rates.hour_ns,
       asked_rates.bursts_per_h,
       fan_ins.p50 AS p50_fan_in,
       quantiles.p90 AS contention_p90,
       CASE WHEN days.n >= 3 AND days.least_spread > 0e0 THEN days.r END AS r_with_day_before
FROM asked_rates
LEFT JOIN fan_ins ON asked_rates.rack = fan_ins.rack AND asked_rates.hour_ns = fan_ins.hour_ns
LEFT JOIN quantiles ON asked_rates.rack = quantiles.rack AND asked_rates.hour_ns = quantiles.hour_ns
LEFT JOIN days ON asked_rates.rack = days.rack AND asked_rates.day_ns = days.day_ns
ORDER BY asked_rates.rack, asked_rates.hour_ns
