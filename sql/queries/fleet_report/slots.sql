-- Slots: how many bursts each host receives in each slot of time, and for how long it was in bursts and recorded in it.
--
--   slot_ns  start of the slot; the variable slot_ns is the length of a slot: some hours. For slots of one hour,
--            bursts / recorded_ns of a rack is the bursts_per_h of the question hours_of_day
SELECT rack,
       host,
       since_ns + (hour_ns - since_ns) // CAST(getvariable('slot_ns') AS BIGINT) * CAST(getvariable('slot_ns') AS BIGINT) AS slot_ns,
       CAST(SUM(bursts) AS BIGINT) AS bursts,
       CAST(SUM(burst_ns) AS BIGINT) AS burst_ns,
       CAST(SUM(recorded_ns) AS BIGINT) AS recorded_ns
FROM hours CROSS JOIN asked
WHERE hour_ns >= since_ns AND hour_ns < until_ns AND direction <> 'out'
GROUP BY ALL
