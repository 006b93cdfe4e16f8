-- The latency of each path over all of its probes: for a part of the time,
-- path_latencies('probes', since_ns, until_ns, batch) is the same of the probes that were sent then.
CREATE VIEW path_latency AS
SELECT src,        -- VARCHAR: as in `probes`
       dst,        -- VARCHAR: as in `probes`
       protocol,   -- VARCHAR: as in `probes`
       measure,    -- VARCHAR: by which it is measured; NULL where nothing was
       sent,       -- BIGINT: probes
       lost,       -- BIGINT: of these, that no answer came to
       measured,   -- BIGINT: of these, whose latency is known
       p50_ns,     -- BIGINT: nearest-rank quantiles of these: values that occurred
       p99_ns,     -- BIGINT: NULL where there are too few to distinguish it from the largest
       p999_ns,    -- BIGINT: likewise
       max_ns,     -- BIGINT: the largest
       stamps      -- VARCHAR: kinds of stamps
FROM path_latencies('probes', -9223372036854775808, 9223372036854775807, CAST(NULL AS VARCHAR));
