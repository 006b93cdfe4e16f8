-- The latency of each path over all that was ever probed, by the buckets of `latency_counts`: quantiles are nearest-rank and
-- within 1 % of the value that occurred. path_quantiles_in('latency_counts', since_ns, until_ns) is the same of the seconds that begin then.
CREATE VIEW path_quantiles AS
SELECT src,        -- VARCHAR: as in `probes`
       dst,        -- VARCHAR: as in `probes`
       protocol,   -- VARCHAR: as in `probes`
       measure,    -- VARCHAR: by which it is measured; '' where nothing was
       sent,       -- BIGINT: probes
       lost,       -- BIGINT: of these, that no answer came to
       measured,   -- BIGINT: of these, whose latency is known
       mean_ns,    -- DOUBLE: of these; NULL where none is known, as in the columns below
       min_ns,     -- BIGINT: the least
       p50_ns,     -- DOUBLE: within 1 %
       p99_ns,     -- DOUBLE: likewise; NULL where there are too few to distinguish it from the largest
       p999_ns,    -- DOUBLE: likewise
       max_ns      -- BIGINT: the largest
FROM path_quantiles_in('latency_counts', -9223372036854775808, 9223372036854775807);
