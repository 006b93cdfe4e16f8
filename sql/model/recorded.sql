-- When each recording counted, in whole bins: one row, or one for each clock epoch if the clock stepped.
CREATE VIEW recorded AS
WITH known AS (
    SELECT *, is_span_known(clock_epochs, start_ns, end_ns) AS is_known FROM main.recordings
), binned AS (  -- the few others, from the bins and their sums
    SELECT recording_id, clock_epoch, min(first_ns) AS first_ns, max(last_ns) AS last_ns
    FROM counts WHERE recording_id IN (SELECT recording_id FROM known WHERE NOT is_known AND (packets > 0 OR NOT complete))
    GROUP BY recording_id, clock_epoch
)
SELECT recording_id,                         -- VARCHAR: see `recordings`
       CAST(0 AS USMALLINT) AS clock_epoch,  -- USMALLINT: as in `bins`
       rack,                                 -- VARCHAR: as in `recordings`
       host,                                 -- VARCHAR: as in `recordings`
       interface,                            -- VARCHAR: as in `recordings`
       direction,                            -- VARCHAR: as in `recordings`
       link_bps,                             -- BIGINT: as in `recordings`
       bin_ns,                               -- BIGINT: as in `recordings`
       recorded_from(start_ns, bin_ns) AS start_ns,          -- BIGINT: start of the first bin
       recorded_until(end_ns, bin_ns, complete) AS end_ns,   -- BIGINT: end of the last bin
       complete,                             -- BOOLEAN: as in `recordings`
       dropped,                              -- BIGINT: as in `recordings`; in the row of clock epoch 0 only
       late                                  -- BIGINT: likewise
FROM known WHERE is_known
UNION ALL
SELECT recording_id, clock_epoch, rack, host, interface, direction, link_bps, bin_ns, first_ns, last_ns + bin_ns, complete,
       CASE WHEN clock_epoch = 0 THEN dropped ELSE 0 END, CASE WHEN clock_epoch = 0 THEN late ELSE 0 END
FROM binned JOIN known USING (recording_id);
