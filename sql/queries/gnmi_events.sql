-- Events of each device's subscriptions: connections, gaps, refusals, drops, counters that were reset.
SELECT utc(ts_ns) AS at_utc, device, subscription, event, (until_ns - ts_ns) / 1e9 AS seconds, amount, detail
FROM gnmi_events ORDER BY ts_ns;
