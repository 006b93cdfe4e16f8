-- Recordings, the newest first: what was recorded, how much, and what was lost. Where the clock stepped, `seconds` are those
-- of its clock epochs, in whole bins, and `utilization` is of them: both without the time of files that are missing.
WITH stepped AS (
    FROM recorded WHERE recording_id IN (SELECT recording_id FROM recordings WHERE clock_epochs > 1)
), spans AS (
    SELECT recording_id, CAST(sum(end_ns - start_ns) AS BIGINT) AS recorded_ns FROM stepped GROUP BY recording_id
), carried AS (
    SELECT recording_id, CAST(sum(wire_bytes) AS BIGINT) AS recorded_bytes
    FROM counts JOIN stepped USING (recording_id, clock_epoch) WHERE first_ns >= start_ns AND first_ns < end_ns
    GROUP BY recording_id
), lasting AS (
    SELECT * REPLACE (CASE WHEN clock_epochs > 1 THEN recorded_bytes ELSE wire_bytes END AS wire_bytes),
           CASE WHEN clock_epochs > 1 THEN recorded_ns ELSE end_ns - start_ns END AS ns
    FROM recordings LEFT JOIN spans USING (recording_id) LEFT JOIN carried USING (recording_id)
)
SELECT recording_id, host, rack, interface, direction, link_bps, bin_ns, clock, utc(start_ns) AS start,
       ns / 1e9 AS seconds, packets, bytes,
       CASE WHEN ns > 0 THEN utilization(wire_bytes, ns, link_bps) END AS utilization,
       dropped, late, unparsed, quality_names(quality) AS quality, complete
FROM lasting
ORDER BY start_ns DESC NULLS FIRST, recording_id;
