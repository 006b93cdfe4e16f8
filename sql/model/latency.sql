-- The latency of each probe, by one measure per path. docs/schema.md has the rule by which it is chosen.
CREATE VIEW latency AS
SELECT batch,          -- VARCHAR: as in `probes`
       seq,            -- BIGINT: as in `probes`
       src,            -- VARCHAR: as in `probes`
       dst,            -- VARCHAR: as in `probes`
       protocol,       -- VARCHAR: as in `probes`
       tx_ns,          -- BIGINT: as in `probes`
       lost,           -- BOOLEAN: as in `probes`
       measure,        -- VARCHAR: by which the path is measured
       latency_ns,     -- BIGINT: by that measure; NULL where the probe was lost, has not the stamps for it, or ends before it begins
       round_trip_ns   -- BIGINT: the round trip, by one of the measures of one, likewise
FROM measured_probes('probes', -9223372036854775808, 9223372036854775807, CAST(NULL AS VARCHAR));
