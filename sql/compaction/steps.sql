-- The rows of `steps` from the seconds that seconds.py has summed up, for the recordings in lanes.
SELECT recording_id, host, rack, interface, direction, clock_epoch, ts_ns, first_ns, last_ns, bins, losing_bins, bytes,
       wire_bytes, packets, ce_packets, retransmits, CAST(quality AS USMALLINT) AS quality, cnp_packets, pause_frames,
       resume_frames, pause_quanta, CAST(pause_classes AS USMALLINT) AS pause_classes, peak_bytes,
       CASE WHEN 1000000 % bin_ns = 0 THEN of_1ms END AS peak_1ms_bytes,
       CASE WHEN 10000000 % bin_ns = 0 THEN of_10ms END AS peak_10ms_bytes,
       CASE WHEN 100000000 % bin_ns = 0 THEN of_100ms END AS peak_100ms_bytes
FROM seconds JOIN lanes USING (lane)
ORDER BY lane, clock_epoch, ts_ns
