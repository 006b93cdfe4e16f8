-- Which time of each recording is kept: all that bursts.sql looks at for any definition whose threshold (and release) is at
-- least `threshold_ppb` of line rate.
--
-- A bin of the stored width that is that full is kept with `around_ns` before and after. A wider bin is at least that
-- full only where it has such a bin, so that wider bins up to `around_ns`, whose joins reach no further, need nothing
-- more. Of the widths that do, those of `widths` are kept: each bin that is full enough, what lies between two of them
-- that can be joined (5 bins), and one bin before.
--
-- Of: day_bins, day_near_bins (of the days before and after, of which near_since_ns to near_until_ns matters), and lanes
-- (recording_id, lane, bin_ns, link_bps). Leaves: kept.

CREATE OR REPLACE TEMP TABLE limits AS
SELECT recording_id, lane, bin_ns, link_bps, least_bytes(getvariable('threshold_ppb') / 1e9, bin_ns, link_bps) AS least
FROM lanes WHERE link_bps IS NOT NULL;

SET VARIABLE least = (SELECT coalesce(min(least), 0) FROM limits);

CREATE OR REPLACE TEMP VIEW beside AS
FROM day_near_bins WHERE ts_ns >= getvariable('near_since_ns') AND ts_ns < getvariable('near_until_ns');

CREATE OR REPLACE TEMP TABLE hot AS
SELECT lane, clock_epoch, bin_start(ts_ns, getvariable('around_ns')) AS cell, min(ts_ns) AS start_ns,
       max(ts_ns) + any_value(bin_ns) AS end_ns
FROM (SELECT recording_id, clock_epoch, ts_ns, wire_bytes FROM day_bins WHERE wire_bytes >= getvariable('least')
      UNION ALL SELECT recording_id, clock_epoch, ts_ns, wire_bytes FROM beside
      WHERE wire_bytes >= getvariable('least')) JOIN limits USING (recording_id)
WHERE wire_bytes >= least
GROUP BY lane, clock_epoch, cell;

-- Sums of 10 ms (or of stored bins where 10 ms is no multiple of them) of the seconds that have a full bin.
CREATE OR REPLACE TEMP TABLE cells AS
WITH seconds AS MATERIALIZED (
    SELECT DISTINCT unnest(range(bin_number(start_ns, 1000000000), bin_number(end_ns - 1, 1000000000) + 1)) AS second
    FROM hot
), near AS (
    SELECT recording_id, clock_epoch, ts_ns, wire_bytes FROM day_bins
    WHERE bin_number(ts_ns, 1000000000) IN (SELECT second FROM seconds)
    UNION ALL SELECT recording_id, clock_epoch, ts_ns, wire_bytes FROM beside
    WHERE bin_number(ts_ns, 1000000000) IN (SELECT second FROM seconds)
)
SELECT lane, clock_epoch, bin_start(ts_ns, CASE WHEN 10000000 % bin_ns = 0 THEN 10000000 ELSE bin_ns END) AS ts_ns,
       sum(wire_bytes) AS wire_bytes
FROM near JOIN limits USING (recording_id)
GROUP BY ALL;

CREATE OR REPLACE TEMP TABLE wide AS
WITH widths AS (
    SELECT lane, bin_ns, link_bps, unnest(list_append(getvariable('widths'), bin_ns)) AS width_ns FROM limits
), full_bins AS (
    SELECT lane, clock_epoch, width_ns, bin_start(ts_ns, width_ns) AS start_ns
    FROM cells JOIN (SELECT DISTINCT * FROM widths WHERE width_ns % bin_ns = 0) USING (lane)
    GROUP BY lane, clock_epoch, width_ns, link_bps, bin_start(ts_ns, width_ns)
    HAVING sum(wire_bytes) >= least_bytes(getvariable('threshold_ppb') / 1e9, width_ns, link_bps)
       AND 7 * width_ns > 2 * getvariable('around_ns')
), islands AS (
    SELECT *, sum(CAST(opens AS INTEGER)) OVER (PARTITION BY lane, clock_epoch, width_ns ORDER BY start_ns) AS island
    FROM (SELECT *, coalesce(start_ns - lag(start_ns) OVER (PARTITION BY lane, clock_epoch, width_ns ORDER BY start_ns)
                             > 6 * width_ns, true) AS opens FROM full_bins)
)
SELECT lane, clock_epoch, min(start_ns) - width_ns AS start_ns, max(start_ns) + width_ns AS end_ns
FROM islands GROUP BY lane, clock_epoch, width_ns, island;

-- Without overlaps.
CREATE OR REPLACE TEMP TABLE kept AS
WITH spans AS (
    SELECT lane, clock_epoch, start_ns - getvariable('around_ns') AS start_ns, end_ns + getvariable('around_ns') AS end_ns
    FROM hot
    UNION ALL FROM wide
), opening AS (
    SELECT *, coalesce(start_ns > max(end_ns) OVER (PARTITION BY lane, clock_epoch ORDER BY start_ns
        ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), true) AS opens
    FROM spans
), placed AS (
    SELECT *, sum(CAST(opens AS INTEGER)) OVER (PARTITION BY lane, clock_epoch ORDER BY start_ns) AS place FROM opening  -- no ROWS: those that begin alike have one place
)
SELECT lane, clock_epoch, min(start_ns) AS start_ns, max(end_ns) AS end_ns
FROM placed GROUP BY lane, clock_epoch, place;
