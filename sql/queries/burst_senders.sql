-- Senders of each burst: what each of them sent in it, and when it began. Settings are those of `bursts`.
-- include: bursts
SELECT recording_id,                   -- VARCHAR: of the burst
       clock_epoch,                    -- USMALLINT: of the burst
       start_ns,                       -- BIGINT: of the burst
       end_ns,                         -- BIGINT: of the burst
       source,                         -- VARCHAR: the sender; `other`: all senders beyond `--max-sources`
       CAST(members AS BIGINT) AS members,        -- BIGINT: 1; for `other`, how many senders it counts
       CAST(round(s.bytes) AS BIGINT) AS bytes,   -- BIGINT: sent in the burst; link layer without FCS
       share,                          -- DOUBLE: of the bytes of the burst
       onset_ns,                       -- BIGINT: time of its first frame in the burst
       counted                         -- BOOLEAN: whether it counts in `fan_in`: it sent at least half an equal share
FROM burst_sources AS s JOIN bursts USING (burst)
ORDER BY burst, place;
