-- Gaps: the cumulative distribution of gaps between the bursts of a recording, and whether bursts come independently.
--
--   gap_ns   from the end of a burst to the start of the next one of the same recording
--   share    share of the gaps of the class (service, direction, link speed, width of bins) that are not longer
--   ks_d     Kolmogorov-Smirnov distance of gaps, each divided by the mean of its recording, from an exponential
--            distribution, which gaps have if bursts are a Poisson process. From recordings with ten gaps or more; NULL
--            if there is none
--   p_value  an upper bound of its probability in a Poisson process: 0.01, 0.025, 0.05, 0.1 or 0.15, NULL if it is
--            higher (Stephens 1974, J. Am. Stat. Assoc. 69, table 1.3: exponential with estimated mean). Bins make gaps
--            multiples of their width: a distance below bin_ns / mean gap is no evidence
WITH following AS (
    SELECT COALESCE(service, '') AS service, direction, link_bps, bin_ns, bursts.rack, bursts.host, recording_id, clock_epoch,
           start_ns - LAG(end_ns) OVER (
               PARTITION BY bursts.rack, bursts.host, recording_id, clock_epoch ORDER BY start_ns) AS gap_ns
    FROM bursts CROSS JOIN asked LEFT JOIN inventory ON bursts.rack = inventory.rack AND bursts.host = inventory.host
    WHERE start_ns >= since_ns AND start_ns < until_ns
), gaps AS (
    SELECT service, direction, link_bps, bin_ns, gap_ns,
           COUNT(*) OVER (PARTITION BY rack, host, recording_id, clock_epoch) AS of_recording,
           AVG(CAST(gap_ns AS DOUBLE)) OVER (PARTITION BY rack, host, recording_id, clock_epoch) AS mean_ns
    FROM following WHERE gap_ns IS NOT NULL
), placed AS (
    SELECT service, direction, link_bps, bin_ns, 1e0 - EXP(-CAST(gap_ns AS DOUBLE) / mean_ns) AS expected,
           CAST(ROW_NUMBER() OVER (PARTITION BY service, direction, link_bps, bin_ns
                                   ORDER BY CAST(gap_ns AS DOUBLE) / mean_ns) AS DOUBLE) AS place,
           CAST(COUNT(*) OVER (PARTITION BY service, direction, link_bps, bin_ns) AS DOUBLE) AS n
    FROM gaps WHERE of_recording >= 10
), tested AS (
    SELECT service, direction, link_bps, bin_ns, MAX(n) AS n,
           MAX(GREATEST(place / n - expected, expected - (place - 1e0) / n)) AS ks_d
    FROM placed GROUP BY service, direction, link_bps, bin_ns
), scaled AS (
    SELECT service, direction, link_bps, bin_ns, ks_d, (ks_d - 0.2e0 / n) * (SQRT(n) + 0.26e0 + 0.5e0 / SQRT(n)) AS scaled_d
    FROM tested
), counted AS (
    SELECT service, direction, link_bps, bin_ns, gap_ns, COUNT(*) AS gaps
    FROM gaps GROUP BY service, direction, link_bps, bin_ns, gap_ns
), summed AS (
    SELECT service, direction, link_bps, bin_ns, gap_ns,
           SUM(gaps) OVER (PARTITION BY service, direction, link_bps, bin_ns ORDER BY gap_ns) AS at_most,
           SUM(gaps) OVER (PARTITION BY service, direction, link_bps, bin_ns) AS n
    FROM counted
)
SELECT summed.service,
       summed.direction,
       summed.link_bps,
       summed.bin_ns,
       summed.gap_ns,
       CAST(summed.at_most AS DOUBLE) / CAST(summed.n AS DOUBLE) AS share,
       scaled.ks_d,
       CASE WHEN scaled.scaled_d >= 1.308e0 THEN 0.01e0 WHEN scaled.scaled_d >= 1.19e0 THEN 0.025e0
            WHEN scaled.scaled_d >= 1.094e0 THEN 0.05e0 WHEN scaled.scaled_d >= 0.99e0 THEN 0.1e0
            WHEN scaled.scaled_d >= 0.926e0 THEN 0.15e0 END AS p_value
FROM summed LEFT JOIN scaled ON summed.service = scaled.service AND summed.direction = scaled.direction
    AND summed.link_bps = scaled.link_bps AND summed.bin_ns = scaled.bin_ns
ORDER BY summed.service, summed.direction, summed.link_bps, summed.bin_ns, summed.gap_ns
