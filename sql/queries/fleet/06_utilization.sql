-- Utilization: the cumulative distribution of the utilization of bins, and the share of bytes that is in bursts.
--
--   utilization        0.05, 0.1, … 1; NULL: all bins, those of line rate and above included
--   share_of_bins      share of recorded bins, idle ones included, that are below that utilization
--   share_of_bytes     share of the bytes of the class (service, direction, link speed, width of bins) that is in
--                      bursts
--   mean_in, mean_out  mean size of packets in bursts, and of the others; bytes, link layer without FCS
WITH sums AS (
    SELECT COALESCE(service, '') AS service, direction, link_bps, bin_ns, CAST(SUM(bytes) AS DOUBLE) AS bytes,
           CAST(SUM(burst_bytes) AS DOUBLE) AS burst_bytes, CAST(SUM(packets) AS DOUBLE) AS packets,
           CAST(SUM(burst_packets) AS DOUBLE) AS burst_packets
    FROM hours CROSS JOIN asked LEFT JOIN inventory ON hours.rack = inventory.rack AND hours.host = inventory.host
    WHERE hour_ns >= since_ns AND hour_ns < until_ns
    GROUP BY COALESCE(service, ''), direction, link_bps, bin_ns
), steps AS (
    SELECT COALESCE(service, '') AS service, direction, link_bps, bin_ns, least, SUM(n) AS bins
    FROM histograms CROSS JOIN asked
    LEFT JOIN inventory ON histograms.rack = inventory.rack AND histograms.host = inventory.host
    WHERE measure = 'utilization' AND hour_ns >= since_ns AND hour_ns < until_ns
    GROUP BY COALESCE(service, ''), direction, link_bps, bin_ns, least
), summed AS (
    SELECT service, direction, link_bps, bin_ns, least,
           SUM(bins) OVER (PARTITION BY service, direction, link_bps, bin_ns ORDER BY least) AS below,
           SUM(bins) OVER (PARTITION BY service, direction, link_bps, bin_ns) AS n
    FROM steps
)
SELECT summed.service,
       summed.direction,
       summed.link_bps,
       summed.bin_ns,
       CASE WHEN least < 100 THEN CAST(least + 5 AS DOUBLE) / 100e0 END AS utilization,
       CAST(below AS DOUBLE) / CAST(n AS DOUBLE) AS share_of_bins,
       burst_bytes / NULLIF(bytes, 0e0) AS share_of_bytes,
       burst_bytes / NULLIF(burst_packets, 0e0) AS mean_in,
       (bytes - burst_bytes) / NULLIF(packets - burst_packets, 0e0) AS mean_out
FROM summed JOIN sums ON summed.service = sums.service AND summed.direction = sums.direction
    AND summed.link_bps = sums.link_bps AND summed.bin_ns = sums.bin_ns
ORDER BY summed.service, summed.direction, summed.link_bps, summed.bin_ns, least
