-- All that was counted, each byte once: the bins of days on which every bin is kept, and the one-second sums (`steps`)
-- of other days (`thinned`).
CREATE VIEW counts AS
SELECT recording_id,                -- VARCHAR: see `recordings`
       clock_epoch,                 -- USMALLINT: as in `bins`
       ts_ns,                       -- BIGINT: start of the bin or second
       ts_ns AS first_ns,           -- BIGINT: start of the first bin
       ts_ns AS last_ns,            -- BIGINT: start of the last bin
       CAST(1 AS BIGINT) AS bins,   -- BIGINT: bins with a row
       CAST(quality & 32 <> 0 AS BIGINT) AS losing_bins,  -- BIGINT: of these, bins in which packets were dropped, or samples of a switch are missing
       bytes,                       -- BIGINT: as in `bins`
       wire_bytes,                  -- BIGINT: as in `bins`
       CAST(packets AS BIGINT) AS packets,              -- BIGINT: as in `bins`
       CAST(ce_packets AS BIGINT) AS ce_packets,        -- BIGINT: as in `bins`
       CAST(retransmits AS BIGINT) AS retransmits,      -- BIGINT: as in `bins`
       quality,                     -- USMALLINT: bits that are set in any bin
       CAST(cnp_packets AS BIGINT) AS cnp_packets,      -- BIGINT: as in `bins`
       CAST(pause_frames AS BIGINT) AS pause_frames,    -- BIGINT: as in `bins`
       CAST(resume_frames AS BIGINT) AS resume_frames,  -- BIGINT: as in `bins`
       pause_quanta,                -- BIGINT: as in `bins`
       pause_classes,               -- USMALLINT: bits that are set in any bin
       wire_bytes AS peak_bytes     -- BIGINT: wire bytes of the fullest bin
FROM main.bins AS b ANTI JOIN main.thinned AS t  -- not NOT EXISTS: tests/sql/test_plans.py
    ON t.recording_id = b.recording_id AND b.ts_ns >= t.start_ns AND b.ts_ns < t.end_ns
UNION ALL
SELECT recording_id, clock_epoch, ts_ns, first_ns, last_ns, bins, losing_bins, bytes, wire_bytes, packets, ce_packets,
       retransmits, quality, cnp_packets, pause_frames, resume_frames, pause_quanta, pause_classes, peak_bytes
FROM main.steps;
