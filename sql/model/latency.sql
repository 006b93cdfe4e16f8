-- The latency of each probe, by one measure per path. docs/schema.md has the rule that chooses the measure.
CREATE VIEW latency AS
SELECT batch,          -- VARCHAR: as in `probes`
       seq,            -- BIGINT: as in `probes`
       src,            -- VARCHAR: as in `probes`
       dst,            -- VARCHAR: as in `probes`
       protocol,       -- VARCHAR: as in `probes`
       tx_ns,          -- BIGINT: as in `probes`
       lost,           -- BOOLEAN: as in `probes`
       measure,        -- VARCHAR: the measure of the path
       latency_ns,     -- BIGINT: by that measure; NULL if the probe was lost, lacks the stamps for it, or ends before it begins
       round_trip_ns   -- BIGINT: the round trip, by one measure of round trips for the path; NULL for the same reasons
FROM measured_probes('probes', -9223372036854775808, 9223372036854775807, CAST(NULL AS VARCHAR));
