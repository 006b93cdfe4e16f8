-- The time of each recording that is kept: around the islands of full bins and windows, as limits.sql defines it.
--
-- Reads limits, and islands (lane, clock_epoch, width_ns, first_ns, last_ns), of the day and of the adjacent days.
-- Creates kept.
CREATE OR REPLACE TEMP TABLE kept AS
WITH apart AS (
    SELECT *, coalesce(first_ns - max(last_ns) OVER before > gap_ns, true) AS opens
    FROM islands JOIN limits USING (lane, width_ns)
    WINDOW before AS (PARTITION BY lane, clock_epoch, width_ns ORDER BY first_ns
                      ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)
), numbered AS (
    SELECT *, sum(CAST(opens AS INTEGER)) OVER (PARTITION BY lane, clock_epoch, width_ns ORDER BY first_ns) AS island
    FROM apart  -- no ROWS: islands with the same start have one number
), spans AS (
    SELECT lane, clock_epoch, min(first_ns) - any_value(before_ns) AS start_ns, max(last_ns) + any_value(after_ns) AS end_ns
    FROM numbered GROUP BY lane, clock_epoch, width_ns, island
), opening AS (
    SELECT *, coalesce(start_ns > max(end_ns) OVER (PARTITION BY lane, clock_epoch ORDER BY start_ns
        ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), true) AS opens
    FROM spans
), placed AS (
    SELECT *, sum(CAST(opens AS INTEGER)) OVER (PARTITION BY lane, clock_epoch ORDER BY start_ns) AS place FROM opening
)
SELECT lane, clock_epoch, min(start_ns) AS start_ns, max(end_ns) AS end_ns  -- without overlaps
FROM placed GROUP BY lane, clock_epoch, place;
