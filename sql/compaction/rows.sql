-- The rows of bins and senders that stay: those in the time that spans.sql has kept. Senders also stay for three of
-- their bins before that time, since the senders of a burst are compared with those before it.
--
-- Reads day_bins, day_sources, kept, lanes, and untouched (recording_id: all rows of these stay). Creates the views
-- kept_bins and kept_sources.

SET VARIABLE slot_bits = (SELECT slot_bits(1000000, coalesce(sum(end_ns - start_ns), 0)) FROM kept);

CREATE OR REPLACE TEMP TABLE bin_slots AS
SELECT recording_id, clock_epoch, start_ns, end_ns, unnest(range(
    start_ns >> getvariable('slot_bits'), ((end_ns - 1) >> getvariable('slot_bits')) + 1)) AS slot
FROM kept JOIN (SELECT recording_id, lane FROM lanes) USING (lane);

CREATE OR REPLACE TEMP VIEW kept_bins AS
SELECT rows.* FROM day_bins AS rows JOIN bin_slots AS spans ON spans.recording_id = rows.recording_id
    AND spans.clock_epoch = rows.clock_epoch AND slot = ts_ns >> getvariable('slot_bits')
WHERE ts_ns >> getvariable('slot_bits') IN (SELECT slot FROM bin_slots) AND ts_ns >= start_ns AND ts_ns < end_ns
UNION ALL
FROM day_bins WHERE recording_id IN (FROM untouched);

CREATE OR REPLACE TEMP TABLE source_slots AS
WITH reaching AS (
    SELECT recording_id, clock_epoch, start_ns - 3 * source_bin_ns AS start_ns, end_ns
    FROM kept JOIN (SELECT recording_id, lane, source_bin_ns FROM lanes) USING (lane)
), apart AS (  -- without overlaps
    SELECT recording_id, clock_epoch,
           greatest(start_ns, coalesce(lag(end_ns) OVER (PARTITION BY recording_id, clock_epoch ORDER BY start_ns), start_ns))
               AS start_ns, end_ns
    FROM reaching
)
SELECT *, unnest(range(start_ns >> getvariable('slot_bits'), ((end_ns - 1) >> getvariable('slot_bits')) + 1)) AS slot
FROM apart;

CREATE OR REPLACE TEMP VIEW kept_sources AS
SELECT rows.* FROM day_sources AS rows JOIN source_slots AS spans ON spans.recording_id = rows.recording_id
    AND spans.clock_epoch = rows.clock_epoch AND slot = ts_ns >> getvariable('slot_bits')
WHERE ts_ns >> getvariable('slot_bits') IN (SELECT slot FROM source_slots) AND ts_ns >= start_ns AND ts_ns < end_ns
UNION ALL
FROM day_sources WHERE recording_id IN (FROM untouched);
