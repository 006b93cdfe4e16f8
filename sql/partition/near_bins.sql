-- The rows of `bins` that start in [span_since_ns, span_until_ns), in a second with a burst or next to one.
SELECT bins.*
FROM bins SEMI JOIN near_seconds ON bins.recording_id = near_seconds.recording_id
    AND bins.clock_epoch = near_seconds.clock_epoch AND bin_number(ts_ns, 1000000000) = second
WHERE ts_ns >= getvariable('span_since_ns') AND ts_ns < getvariable('span_until_ns')
