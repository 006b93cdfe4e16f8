-- The rows of `sources` that start in [span_since_ns, span_until_ns), in a second with a burst or next to one.
SELECT sources.*
FROM sources SEMI JOIN near_seconds ON sources.recording_id = near_seconds.recording_id
    AND sources.clock_epoch = near_seconds.clock_epoch AND bin_number(ts_ns, 1000000000) = second
WHERE ts_ns >= getvariable('span_since_ns') AND ts_ns < getvariable('span_until_ns')
