-- Whether a chain that may be part of a burst that begins in [span_since_ns, span_until_ns) may continue beyond the
-- bins that were examined: before the first or after the last. Reads the tables that bursts.sql creates.
--
-- A chain is a sequence of bins at or above release, at most join_ns apart: no burst has bins of two chains. A chain
-- that comes within join_ns and a bin of the first or last bin that was examined may continue beyond it.
WITH steps AS (
    SELECT lane, clock_epoch, ts_ns, bin_ns, join_ns,
           coalesce(ts_ns - lag(ts_ns) OVER earlier - bin_ns > join_ns, true) AS opens
    FROM warm JOIN (SELECT lane, bin_ns, join_ns FROM lanes) USING (lane)
    WINDOW earlier AS (PARTITION BY lane, clock_epoch ORDER BY ts_ns)
), numbered AS (
    SELECT *, sum(CAST(opens AS INTEGER)) OVER (PARTITION BY lane, clock_epoch ORDER BY ts_ns) AS chain FROM steps
), chains AS (
    SELECT min(ts_ns) AS start_ns, max(ts_ns + bin_ns) AS end_ns, CAST(any_value(join_ns + bin_ns) AS HUGEINT) AS reach_ns
    FROM numbered GROUP BY lane, clock_epoch, chain
)
SELECT coalesce(bool_or(start_ns - reach_ns <= getvariable('first_ns')), false) AS goes_before,
       coalesce(bool_or(end_ns + reach_ns >= getvariable('beyond_ns')), false) AS goes_on
FROM chains
WHERE end_ns > getvariable('span_since_ns') AND start_ns < getvariable('span_until_ns');
