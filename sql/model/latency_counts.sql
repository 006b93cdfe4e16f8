-- The probes of each second and path, each once: stored probes, and for days whose probes were removed, the sums that
-- were kept of them (`latency_steps`).
CREATE VIEW latency_counts AS
SELECT src,        -- VARCHAR: as in `probes`
       dst,        -- VARCHAR: as in `probes`
       protocol,   -- VARCHAR: as in `probes`
       measure,    -- VARCHAR: the measure of the path; '' if nothing was measured
       ts_ns,      -- BIGINT: start of the second in which they were sent
       sent,       -- BIGINT: probes
       lost,       -- BIGINT: of these, probes without an answer
       measured,   -- BIGINT: of these, probes with a known latency
       sum_ns,     -- BIGINT: sum of their latencies; NULL if none is known
       min_ns,     -- BIGINT: least of their latencies; NULL if none is known
       max_ns,     -- BIGINT: largest of their latencies; NULL if none is known
       histogram   -- VARCHAR: as in `latency_steps`
FROM probed_seconds('probes')
UNION ALL
FROM main.latency_steps;
