-- Recordings, the newest first: what was recorded, how much, and what was lost.
SELECT run, host, rack, interface, direction, link_bps, bin_ns, clock, utc(start_ns) AS start,
       (end_ns - start_ns) / 1e9 AS seconds, packets, bytes,
       CASE WHEN end_ns > start_ns THEN utilization(wire_bytes, end_ns - start_ns, link_bps) END AS utilization,
       dropped, late, unparsed, quality_names(quality) AS quality, complete
FROM runs
ORDER BY start_ns DESC NULLS FIRST, run;
