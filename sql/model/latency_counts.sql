-- The probes of each second and path, each once: those that are stored, and of days whose probes were removed, the sums that
-- were kept of them (`latency_steps`).
CREATE VIEW latency_counts AS
SELECT src,        -- VARCHAR: as in `probes`
       dst,        -- VARCHAR: as in `probes`
       protocol,   -- VARCHAR: as in `probes`
       measure,    -- VARCHAR: by which the path is measured; '' where nothing was
       ts_ns,      -- BIGINT: start of the second in which they were sent
       sent,       -- BIGINT: probes
       lost,       -- BIGINT: of these, that no answer came to
       measured,   -- BIGINT: of these, whose latency is known
       sum_ns,     -- BIGINT: of their latencies; NULL where none is known
       min_ns,     -- BIGINT: likewise, the least
       max_ns,     -- BIGINT: likewise, the largest
       histogram   -- VARCHAR: as in `latency_steps`
FROM probed_seconds('probes')
UNION ALL
FROM main.latency_steps;
