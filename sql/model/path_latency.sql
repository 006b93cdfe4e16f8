-- The latency of each path over all of its probes. For a part of the time, path_latencies('probes', since_ns, until_ns,
-- batch) has the same for the probes that were sent in it.
CREATE VIEW path_latency AS
SELECT src,        -- VARCHAR: as in `probes`
       dst,        -- VARCHAR: as in `probes`
       protocol,   -- VARCHAR: as in `probes`
       measure,    -- VARCHAR: the measure of the path; NULL if nothing was measured
       sent,       -- BIGINT: probes
       lost,       -- BIGINT: of these, probes without an answer
       measured,   -- BIGINT: of these, probes with a known latency
       p50_ns,     -- BIGINT: median latency; quantiles are nearest-rank: values that occurred
       p99_ns,     -- BIGINT: 99 % quantile; NULL if there are too few latencies to distinguish it from the largest
       p999_ns,    -- BIGINT: 99.9 % quantile; NULL for the same reason
       max_ns,     -- BIGINT: largest latency
       stamps      -- VARCHAR: kinds of stamps
FROM path_latencies('probes', -9223372036854775808, 9223372036854775807, CAST(NULL AS VARCHAR));
