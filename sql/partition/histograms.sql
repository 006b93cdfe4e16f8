-- Histograms: the number of bins or bursts of each size, for each hour of each recording. Rows add up. Reads the tables
-- that bursts.sql and cells.sql create.
--
--   utilization  bins in steps of 5 % of line rate: `least` is 0, 5, … 100 (100 or more); an idle bin counts in 0
--   duration     bursts by their duration: `least` is a power of two in ns, and the duration is below the next one
--   gap          bursts by the time since the end of the previous burst of the same recording, by powers of two, too.
--                The first burst of a recording in the span has none
--   fan_in       bursts by their fan-in: powers of two, and 0 if no sender is known
WITH begun AS (
    SELECT recording_id, clock_epoch, bin_start(start_ns, 3600000000000) AS hour_ns, duration_ns, fan_in,
           start_ns - lag(end_ns) OVER (PARTITION BY recording_id, clock_epoch ORDER BY start_ns) AS gap_ns
    FROM bursts WHERE start_ns >= getvariable('span_since_ns') AND start_ns < getvariable('span_until_ns')
), idle AS (
    SELECT lane, clock_epoch, hour_ns, bins - coalesce(active, 0) AS idle
    FROM recorded_hours LEFT JOIN (
        SELECT lane, clock_epoch, hour_ns, sum(bins) AS active FROM cells GROUP BY lane, clock_epoch, hour_ns
    ) USING (lane, clock_epoch, hour_ns)
), counted AS (
    SELECT recording_id, clock_epoch, hour_ns, 'utilization' AS measure, CAST(step AS BIGINT) * 5 AS least, bins AS n
    FROM cells JOIN (SELECT lane, recording_id FROM lanes) USING (lane)
    UNION ALL
    SELECT recording_id, clock_epoch, hour_ns, 'utilization', 0, idle
    FROM idle JOIN (SELECT lane, recording_id FROM lanes) USING (lane) WHERE idle > 0
    UNION ALL
    SELECT recording_id, clock_epoch, hour_ns, 'duration', power_below(duration_ns), 1 FROM begun
    UNION ALL
    SELECT recording_id, clock_epoch, hour_ns, 'gap', power_below(gap_ns), 1 FROM begun WHERE gap_ns IS NOT NULL
    UNION ALL
    SELECT recording_id, clock_epoch, hour_ns, 'fan_in', power_below(fan_in), 1 FROM begun
)
SELECT rack,                                         -- VARCHAR: as in `recordings`
       host,                                         -- VARCHAR: as in `recordings`
       interface,                                    -- VARCHAR: as in `recordings`
       direction,                                    -- VARCHAR: as in `recordings`
       recording_id,                                 -- VARCHAR: see `recordings`
       CAST(clock_epoch AS INTEGER) AS clock_epoch,  -- INTEGER: as in `bins`
       hour_ns,                                      -- BIGINT: when the hour begins
       link_bps,                                     -- BIGINT: the line rate by which bursts were detected
       bin_ns,                                       -- BIGINT: width of the bins in which bursts were detected
       measure,                                      -- VARCHAR: utilization, duration, gap or fan_in
       least,                                        -- BIGINT: the smallest value that counts here
       CAST(sum(n) AS BIGINT) AS n                   -- BIGINT: bins or bursts
FROM counted JOIN lanes USING (recording_id)
GROUP BY ALL
ORDER BY hour_ns, recording_id, clock_epoch, measure, least;
