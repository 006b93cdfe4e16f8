-- How full the bins of each recording are: the share of time at each tenth of line rate, bins without a packet included.
-- Bins above line rate count as full. Days that were compacted (`thinned`) are left out.
WITH tallies AS (
    SELECT recording_id, CAST(floor(least(utilization(wire_bytes, bin_ns, link_bps), 1) * 10) AS INTEGER) AS tenth, count(*) AS bins
    FROM bins JOIN (SELECT recording_id, bin_ns, link_bps FROM recordings WHERE link_bps IS NOT NULL) USING (recording_id)
        ANTI JOIN thinned AS t ON t.recording_id = bins.recording_id AND bins.ts_ns >= t.start_ns AND bins.ts_ns < t.end_ns
    GROUP BY recording_id, tenth
), left_out AS (
    SELECT recording_id, clock_epoch, r.start_ns, sum(least(r.end_ns, t.end_ns) - greatest(r.start_ns, t.start_ns)) AS out_ns
    FROM recorded AS r JOIN thinned AS t USING (recording_id)
    WHERE t.start_ns < r.end_ns AND t.end_ns > r.start_ns GROUP BY ALL
), spans AS (
    SELECT recording_id, sum(bins) AS filled, any_value(total) AS total
    FROM tallies JOIN (SELECT recording_id, CAST(sum((end_ns - start_ns - coalesce(out_ns, 0)) // bin_ns) AS BIGINT) AS total
                       FROM recorded LEFT JOIN left_out USING (recording_id, clock_epoch, start_ns) GROUP BY recording_id)
        USING (recording_id)
    GROUP BY recording_id
), tenths AS (
    FROM tallies UNION ALL SELECT recording_id, 0, total - filled FROM spans
)
SELECT host, interface, direction, recording_id, bin_ns, tenth / 10 AS from_utilization, sum(bins) AS bins,
       sum(bins) / total AS share_of_time
FROM tenths JOIN spans USING (recording_id) JOIN (SELECT recording_id, host, interface, direction, bin_ns FROM recordings) USING (recording_id)
GROUP BY host, interface, direction, recording_id, bin_ns, tenth, total
ORDER BY host, interface, direction, recording_id, tenth;
