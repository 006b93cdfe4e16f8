-- The latency of each path over all probes that were ever sent, from the buckets of `latency_counts`: quantiles are
-- nearest-rank and within 1 % of the value that occurred. path_quantiles_in('latency_counts', since_ns, until_ns) has
-- the same for the seconds that begin in that time.
CREATE VIEW path_quantiles AS
SELECT src,        -- VARCHAR: as in `probes`
       dst,        -- VARCHAR: as in `probes`
       protocol,   -- VARCHAR: as in `probes`
       measure,    -- VARCHAR: the measure of the path; '' if nothing was measured
       sent,       -- BIGINT: probes
       lost,       -- BIGINT: of these, probes without an answer
       measured,   -- BIGINT: of these, probes with a known latency
       mean_ns,    -- DOUBLE: mean latency; NULL if none is known, as in the columns below
       min_ns,     -- BIGINT: least latency
       p50_ns,     -- DOUBLE: median, within 1 %
       p99_ns,     -- DOUBLE: 99 % quantile, within 1 %; NULL if there are too few latencies to distinguish it from the largest
       p999_ns,    -- DOUBLE: 99.9 % quantile, within 1 %; NULL for the same reason
       max_ns      -- BIGINT: largest latency
FROM path_quantiles_in('latency_counts', -9223372036854775808, 9223372036854775807);
