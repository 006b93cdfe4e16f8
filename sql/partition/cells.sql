-- What the bins of each hour of the span add up to, by utilization; and when each recording counted in it. Asked of the
-- tables that bursts.sql left, for hours.sql, histograms.sql and coverage.sql. An hour begins at a multiple of 3,600 s.
--
-- A bin (of the width in which bursts are detected) counts in the hour in which it starts.
SET VARIABLE base_ns = bin_start(CAST(getvariable('span_since_ns') AS BIGINT), 3600000000000);

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
SELECT lane, clock_epoch, getvariable('base_ns') + hour * 3600000000000 AS hour_ns, step, bins, bytes, wire_bytes, packets,
       retransmits, ce_packets, losing_bins, quality
FROM (
    SELECT lane, clock_epoch, CAST((ts_ns - getvariable('base_ns')) // 3600000000000 AS INTEGER) AS hour,
           CAST(least(floor(wire_bytes * steps_a_byte + 1e-10), 20) AS INTEGER) AS step,  -- a byte is more than 1e-9 steps
           count(*) AS bins, CAST(sum(bytes) AS BIGINT) AS bytes, CAST(sum(wire_bytes) AS BIGINT) AS wire_bytes,
           CAST(sum(packets) AS BIGINT) AS packets, CAST(sum(retransmits) AS BIGINT) AS retransmits,
           CAST(sum(ce_packets) AS BIGINT) AS ce_packets, count(*) FILTER (quality & 32 <> 0) AS losing_bins, CAST(bit_or(quality) AS INTEGER) AS quality
    FROM widened GROUP BY lane, clock_epoch, hour, step);

CREATE OR REPLACE TEMP TABLE recorded_hours AS
WITH within AS (
    SELECT lane, clock_epoch, lanes.bin_ns, start_ns AS begun_ns,
           greatest(start_ns, getvariable('span_since_ns')) AS start_ns, least(end_ns, getvariable('span_until_ns')) AS end_ns
    FROM recorded JOIN (SELECT recording_id, lane, bin_ns FROM lanes) AS lanes USING (recording_id)
    WHERE start_ns < getvariable('span_until_ns') AND end_ns > getvariable('span_since_ns')
), hours AS (
    SELECT *, bin_start(begun_ns, bin_ns) AS first_ns,
           unnest(range(bin_start(greatest(bin_start(begun_ns, bin_ns), getvariable('span_since_ns')), 3600000000000),
                        end_ns, 3600000000000)) AS hour_ns
    FROM within
)
SELECT lane, clock_epoch, hour_ns,
       greatest(least(end_ns, hour_ns + 3600000000000) - greatest(start_ns, hour_ns), 0) AS recorded_ns,
       -- the bins that start in it, and of these, those behind another one of the recording
       bin_number(least(end_ns, hour_ns + 3600000000000) - 1, bin_ns)
           - bin_number(greatest(first_ns, getvariable('span_since_ns'), hour_ns) - 1, bin_ns) AS bins,
       bins - CASE WHEN first_ns >= greatest(hour_ns, getvariable('span_since_ns')) AND first_ns < hour_ns + 3600000000000
              THEN 1 ELSE 0 END AS pairs
FROM hours;

-- The largest power of two that is not above a whole number; 0 of 0.
CREATE OR REPLACE TEMP MACRO power_below(value) AS
    CASE WHEN value > 0 THEN CAST(1 AS BIGINT) << (length(bin(CAST(value AS BIGINT))) - 1) ELSE 0 END;
