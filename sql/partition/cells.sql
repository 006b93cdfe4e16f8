-- Sums over the bins of each hour of the span, by utilization and in bursts; and when each recording counted in it.
-- Reads the tables that bursts.sql creates; the other files of this folder read the result. An hour begins at a
-- multiple of 3,600 s.
--
-- A bin (of the width in which bursts are detected) counts in the hour in which it starts.
CREATE OR REPLACE TEMP TABLE cells AS
WITH steps AS (SELECT recording_id, lane, factor, utilization(20, bin_ns, link_bps) AS steps_a_byte FROM lanes
), widened AS (
    SELECT lane, steps_a_byte, clock_epoch, ts_ns, bytes, wire_bytes, CAST(packets AS BIGINT) AS packets,
           CAST(retransmits AS BIGINT) AS retransmits, CAST(ce_packets AS BIGINT) AS ce_packets, quality
    FROM bins JOIN (FROM steps WHERE factor = 1) USING (recording_id)
    WHERE ts_ns >= getvariable('span_since_ns') AND ts_ns < getvariable('span_until_ns')
    UNION ALL
    SELECT lane, any_value(steps_a_byte), clock_epoch, bin_start(ts_ns, getvariable('bin_ns')) AS start_ns,
           CAST(sum(bytes) AS BIGINT), CAST(sum(wire_bytes) AS BIGINT), CAST(sum(packets) AS BIGINT), CAST(sum(retransmits) AS BIGINT),
           CAST(sum(ce_packets) AS BIGINT), bit_or(quality)
    FROM bins JOIN (FROM steps WHERE factor > 1) USING (recording_id)
    WHERE bin_start(ts_ns, getvariable('bin_ns')) >= getvariable('span_since_ns')
      AND bin_start(ts_ns, getvariable('bin_ns')) < getvariable('span_until_ns')
    GROUP BY lane, clock_epoch, start_ns
)
SELECT lane, clock_epoch, hour * 3600000000000 AS hour_ns, CAST(least(step, 20) AS INTEGER) AS step,
       CAST(sum(n) AS BIGINT) AS bins, CAST(sum(bytes) AS BIGINT) AS bytes, CAST(sum(wire_bytes) AS BIGINT) AS wire_bytes,
       CAST(sum(packets) AS BIGINT) AS packets, CAST(sum(retransmits) AS BIGINT) AS retransmits,
       CAST(sum(ce_packets) AS BIGINT) AS ce_packets, CAST(sum(lossy) // 32 AS BIGINT) AS losing_bins,
       CAST(bit_or(quality) AS INTEGER) AS quality
FROM (  -- work for each bin takes most of the time: the rest is done for few rows
    SELECT lane, clock_epoch, ts_ns // 3600000000000 AS hour,
           floor(wire_bytes * steps_a_byte + 1e-10) AS step,  -- a byte is more than 1e-9 steps
           count(*) AS n, sum(bytes) AS bytes, sum(wire_bytes) AS wire_bytes, sum(packets) AS packets,
           sum(retransmits) AS retransmits, sum(ce_packets) AS ce_packets,
           sum(CAST(quality & 32 AS BIGINT)) AS lossy, bit_or(quality) AS quality
    FROM widened GROUP BY lane, clock_epoch, hour, step)
GROUP BY lane, clock_epoch, hour, least(step, 20);

CREATE OR REPLACE TEMP TABLE recorded_times AS SELECT recording_id, clock_epoch, start_ns, end_ns FROM recorded;

CREATE OR REPLACE TEMP TABLE recorded_hours AS
WITH within AS (
    SELECT lane, clock_epoch, lanes.bin_ns, start_ns AS begun_ns,
           greatest(start_ns, getvariable('span_since_ns')) AS start_ns, least(end_ns, getvariable('span_until_ns')) AS end_ns
    FROM recorded_times AS own JOIN (SELECT recording_id, lane, bin_ns FROM lanes) AS lanes USING (recording_id)
    WHERE bin_start(own.start_ns, lanes.bin_ns) < getvariable('span_until_ns') AND end_ns > getvariable('span_since_ns')
), hours AS (
    SELECT *, bin_start(begun_ns, bin_ns) AS first_ns,
           unnest(range(bin_start(greatest(bin_start(begun_ns, bin_ns), getvariable('span_since_ns')), 3600000000000),
                        end_ns, 3600000000000)) AS hour_ns
    FROM within
)
SELECT lane, clock_epoch, hour_ns, greatest(start_ns, hour_ns) AS from_ns,
       greatest(least(end_ns, hour_ns + 3600000000000) - from_ns, 0) AS recorded_ns,
       -- the bins that start in the hour, and those of them that follow another bin of the recording
       bin_number(least(end_ns, hour_ns + 3600000000000) - 1, bin_ns)
           - bin_number(greatest(first_ns, getvariable('span_since_ns'), hour_ns) - 1, bin_ns) AS bins,
       bins - CASE WHEN first_ns >= greatest(hour_ns, getvariable('span_since_ns')) AND first_ns < hour_ns + 3600000000000
              THEN 1 ELSE 0 END AS pairs
FROM hours;

CREATE OR REPLACE TEMP TABLE recorded_bursts AS FROM received_parts('bursts', 'recorded_times');

-- The bins and the time of bursts, in the hours in which they lie: a burst that crosses the end of an hour, or an edge
-- of the span, counts on both sides, each with its part. So no hour has more bytes in bursts than in total. Bins are
-- read again only for such bursts, by slots.
CREATE OR REPLACE TEMP TABLE divided AS
SELECT recording_id, lane, clock_epoch, start_ns, end_ns, factor
FROM bursts JOIN (SELECT recording_id, lane, factor FROM lanes) USING (recording_id)
WHERE end_ns > getvariable('span_since_ns') AND start_ns < getvariable('span_until_ns')
  AND (bin_start(start_ns, 3600000000000) <> bin_start(end_ns - bin_ns, 3600000000000)
       OR start_ns < getvariable('span_since_ns') OR end_ns - bin_ns >= getvariable('span_until_ns'));

SET VARIABLE slot_bits = (SELECT slot_bits(max(stored_ns), sum(end_ns - start_ns)) FROM divided JOIN lanes USING (lane));

CREATE OR REPLACE TEMP TABLE burst_hours AS
WITH slots AS MATERIALIZED (
    SELECT recording_id, lane, clock_epoch, start_ns, end_ns, unnest(range(
        start_ns >> getvariable('slot_bits'), ((end_ns - 1) >> getvariable('slot_bits')) + 1)) AS slot
    FROM divided WHERE factor = 1
), near AS (
    SELECT *, ts_ns >> getvariable('slot_bits') AS slot FROM bins WHERE slot IN (SELECT slot FROM slots)
), inside AS (
    SELECT lane, clock_epoch, ts_ns, bytes, packets FROM near JOIN slots USING (slot, clock_epoch, recording_id)
    WHERE ts_ns >= start_ns AND ts_ns < end_ns
    UNION ALL
    SELECT filled.lane, filled.clock_epoch, ts_ns, bytes, packets FROM filled ASOF JOIN divided
        ON filled.lane = divided.lane AND filled.clock_epoch = divided.clock_epoch AND filled.ts_ns >= divided.start_ns
    WHERE ts_ns < end_ns
    UNION ALL
    SELECT lane, clock_epoch, start_ns, bytes, packets
    FROM bursts JOIN (SELECT recording_id, lane FROM lanes) USING (recording_id)
    ANTI JOIN divided USING (lane, clock_epoch, start_ns)
), sent AS (
    SELECT lane, clock_epoch, bin_start(ts_ns, 3600000000000) AS hour_ns, sum(bytes) AS bytes, sum(packets) AS packets
    FROM inside WHERE ts_ns >= getvariable('span_since_ns') AND ts_ns < getvariable('span_until_ns')
    GROUP BY lane, clock_epoch, hour_ns
), parts AS (
    SELECT recording_id, clock_epoch, start_ns, end_ns,
           unnest(range(bin_start(start_ns, 3600000000000), end_ns, 3600000000000)) AS hour_ns
    FROM bursts
), lasting AS (
    SELECT lane, clock_epoch, hour_ns, sum(greatest(least(end_ns, from_ns + recorded_ns) - greatest(start_ns, from_ns), 0)) AS ns
    FROM parts JOIN (SELECT recording_id, lane FROM lanes) USING (recording_id)
    JOIN recorded_hours USING (lane, clock_epoch, hour_ns)
    GROUP BY lane, clock_epoch, hour_ns
)
SELECT lane, clock_epoch, hour_ns, sent.bytes, sent.packets, lasting.ns FROM sent FULL JOIN lasting USING (lane, clock_epoch, hour_ns);

-- Retransmissions and CE marks in each burst and `after` it, which means for after_ns from its end, but not beyond the
-- start of the next burst of its recording, so that nothing counts twice. By the hour in which they occur (NULL: beyond
-- the span).
CREATE OR REPLACE TEMP TABLE losses AS
WITH marked AS (  -- few bins: DuckDB tests a condition on one column before it reads the others
    SELECT recording_id, clock_epoch, ts_ns, CAST(retransmits AS BIGINT) AS retransmits, CAST(0 AS BIGINT) AS ce_packets
    FROM bins WHERE retransmits > 0 AND ts_ns >= getvariable('span_since_ns')
    UNION ALL
    SELECT recording_id, clock_epoch, ts_ns, 0, CAST(ce_packets AS BIGINT)
    FROM bins WHERE ce_packets > 0 AND ts_ns >= getvariable('span_since_ns')
), met AS (  -- the last burst that began before the bin, so that no bin counts for two
    SELECT bursts.recording_id, bursts.clock_epoch, bursts.start_ns, bin_start(ts_ns, bin_ns) AS bin_start_ns,
           retransmits, ce_packets, ts_ns < end_ns AS inside
    FROM marked ASOF JOIN bursts ON marked.recording_id = bursts.recording_id AND marked.clock_epoch = bursts.clock_epoch
        AND marked.ts_ns >= bursts.start_ns
    WHERE ts_ns < end_ns + getvariable('after_ns')
)
SELECT recording_id, clock_epoch, start_ns,
       CASE WHEN bin_start_ns >= getvariable('span_since_ns') AND bin_start_ns < getvariable('span_until_ns')
            THEN bin_start(bin_start_ns, 3600000000000) END AS hour_ns,
       sum(retransmits) FILTER (inside) AS retransmits, sum(ce_packets) FILTER (inside) AS ce_packets,
       sum(retransmits) FILTER (NOT inside) AS retransmits_after, sum(ce_packets) FILTER (NOT inside) AS ce_packets_after
FROM met GROUP BY ALL;

-- The largest power of two that is not above a whole number; 0 for 0.
CREATE OR REPLACE TEMP MACRO power_below(value) AS
    CASE WHEN value > 0 THEN CAST(1 AS BIGINT) << (length(bin(CAST(value AS BIGINT))) - 1) ELSE 0 END;
