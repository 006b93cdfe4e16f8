-- Recordings, the newest first: what was recorded, how much, and what was lost.
SELECT recording_id, host, rack, interface, direction, link_bps, bin_ns, clock, utc(start_ns) AS start,
       (end_ns - start_ns) / 1e9 AS seconds, packets, bytes,
       CASE WHEN end_ns > start_ns THEN utilization(wire_bytes, end_ns - start_ns, link_bps) END AS utilization,
       dropped, late, unparsed, quality_names(quality) AS quality, complete
FROM recordings
ORDER BY start_ns DESC NULLS FIRST, recording_id;
