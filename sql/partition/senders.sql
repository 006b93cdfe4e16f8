-- The senders of the bursts that begin in [span_since_ns, span_until_ns): the ten with the most bytes, and all in
-- fan_in. Rack, host, recording, clock epoch and start identify a burst. Reads the tables that bursts.sql creates.
SELECT rack,                                                -- VARCHAR: as in `recordings`
       host,                                                -- VARCHAR: as in `recordings`
       recording_id,                                        -- VARCHAR: see `recordings`
       CAST(clock_epoch AS INTEGER) AS clock_epoch,         -- INTEGER: as in `bins`
       start_ns,                                            -- BIGINT: start of the burst
       CAST(place AS INTEGER) AS place,                     -- INTEGER: 1 is the sender with the most bytes; equal ones are in the order of their names
       source,                                              -- VARCHAR: as in `sources`
       CAST(members AS BIGINT) AS members,                  -- BIGINT: senders that it stands for: 1, except for `other`
       CAST(round(burst_sources.bytes) AS BIGINT) AS bytes, -- BIGINT: in the burst
       share,                                               -- DOUBLE: share of the bytes of all senders of the burst
       onset_ns,                                            -- BIGINT: time of its first frame in the burst
       counted AS in_fan_in,                                -- BOOLEAN: counts in fan_in
       began                                                -- BOOLEAN: began with the burst
FROM burst_sources JOIN (SELECT burst, rack, host, recording_id, clock_epoch, start_ns FROM bursts) USING (burst)
WHERE (place <= 10 OR counted)
  AND start_ns >= getvariable('span_since_ns') AND start_ns < getvariable('span_until_ns')
ORDER BY start_ns, recording_id, clock_epoch, place;
