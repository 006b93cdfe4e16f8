-- When each recording counted in the span, and the limits of its data. Reads the tables that bursts.sql and cells.sql
-- create.
SELECT rack,                                         -- VARCHAR: as in `recordings`
       host,                                         -- VARCHAR: as in `recordings`
       interface,                                    -- VARCHAR: as in `recordings`
       direction,                                    -- VARCHAR: as in `recordings`
       recording_id,                                 -- VARCHAR: see `recordings`
       CAST(clock_epoch AS INTEGER) AS clock_epoch,  -- INTEGER: as in `bins`
       lanes.link_bps,                               -- BIGINT: the line rate by which bursts were detected
       lanes.bin_ns,                                 -- BIGINT: width of the bins in which bursts were detected
       greatest(start_ns, getvariable('span_since_ns')) AS start_ns,  -- BIGINT: start of the recording or of the span, whichever is later
       least(end_ns, getvariable('span_until_ns')) AS end_ns,         -- BIGINT: end of the recording or of the span, whichever is earlier
       complete,                                     -- BOOLEAN: as in `recordings`
       dropped,                                      -- BIGINT: as in `recordings`: of the whole recording
       late                                          -- BIGINT: likewise
FROM recorded JOIN (SELECT recording_id, link_bps, bin_ns FROM lanes) AS lanes USING (recording_id)
WHERE start_ns < getvariable('span_until_ns') AND end_ns > getvariable('span_since_ns')
ORDER BY start_ns, recording_id, clock_epoch;
