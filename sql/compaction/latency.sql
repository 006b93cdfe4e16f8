-- What stays of the probes of a day (day_probes): rows of `latency_steps`.
FROM probed_seconds('day_probes') ORDER BY src, dst, protocol, measure, ts_ns
