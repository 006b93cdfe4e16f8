-- One-second sums of the bins of day_bins, for the recordings in lanes: rows of `steps`. The fullest windows of each
-- second are in peaks (peaks.py).
WITH totals AS (
    SELECT lane, clock_epoch, bin_start(ts_ns, 1000000000) AS ts_ns, min(ts_ns) AS first_ns, max(ts_ns) AS last_ns,
           count(*) AS bins, count(*) FILTER (quality & 32 <> 0) AS losing_bins, sum(bytes) AS bytes,
           sum(wire_bytes) AS wire_bytes, sum(packets) AS packets, sum(ce_packets) AS ce_packets,
           sum(retransmits) AS retransmits, bit_or(quality) AS quality, sum(cnp_packets) AS cnp_packets,
           sum(pause_frames) AS pause_frames, sum(resume_frames) AS resume_frames, sum(pause_quanta) AS pause_quanta,
           bit_or(pause_classes) AS pause_classes, max(wire_bytes) AS peak_bytes
    FROM day_bins JOIN (SELECT recording_id, lane FROM lanes) USING (recording_id)
    GROUP BY lane, clock_epoch, bin_start(ts_ns, 1000000000)
)
SELECT recording_id, host, rack, interface, direction, clock_epoch, ts_ns, first_ns, last_ns, bins, losing_bins,
       CAST(bytes AS BIGINT) AS bytes, CAST(wire_bytes AS BIGINT) AS wire_bytes, CAST(packets AS BIGINT) AS packets,
       CAST(ce_packets AS BIGINT) AS ce_packets, CAST(retransmits AS BIGINT) AS retransmits, quality,
       CAST(cnp_packets AS BIGINT) AS cnp_packets, CAST(pause_frames AS BIGINT) AS pause_frames,
       CAST(resume_frames AS BIGINT) AS resume_frames, CAST(pause_quanta AS BIGINT) AS pause_quanta, pause_classes,
       peak_bytes, CAST(CASE WHEN 1000000 % bin_ns = 0 THEN of_1ms END AS BIGINT) AS peak_1ms_bytes,
       CAST(CASE WHEN 10000000 % bin_ns = 0 THEN of_10ms END AS BIGINT) AS peak_10ms_bytes,
       CAST(CASE WHEN 100000000 % bin_ns = 0 THEN of_100ms END AS BIGINT) AS peak_100ms_bytes
FROM totals JOIN peaks USING (lane, clock_epoch, ts_ns) JOIN lanes USING (lane)
ORDER BY lane, clock_epoch, ts_ns
