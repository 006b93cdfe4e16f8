-- Utilization of each millisecond, or of the fewest whole bins that are no shorter. There is no row for a time without
-- a packet, or for what compaction removed (on days in `thinned`, times that are not in `kept`: their one-second sums
-- are in `steps`).
SELECT host, interface, direction, recording_id, clock_epoch, start_ns, utilization(sum(wire_bytes), span_ns, link_bps) AS utilization,
       sum(bytes) AS bytes, sum(packets) AS packets, quality_names(bit_or(quality)) AS quality
FROM (SELECT *, bin_start(ts_ns, span_ns) AS start_ns
      FROM bins JOIN (SELECT recording_id, (999999 // bin_ns + 1) * bin_ns AS span_ns, link_bps FROM recordings) USING (recording_id))
GROUP BY host, interface, direction, recording_id, clock_epoch, start_ns, span_ns, link_bps
ORDER BY host, interface, direction, recording_id, clock_epoch, start_ns;
