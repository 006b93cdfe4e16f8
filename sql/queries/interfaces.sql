-- Interfaces that were recorded: the newest data of each direction, how its recording ended, and what was not counted.
-- `newest_ns` is of the newest bin, or of the newest reading of the clocks where no packet came. `ended` is '' while it is
-- recorded; of a recording that has not ended, there is no row before its first packet (`mburst status` also reads the
-- locks of recorders). If two recordings of a direction overlap, one of the variable live_writers (writer_ids; default:
-- none) counts, or else the one that has not ended while it has newer data.
-- `gaps` counts those that ended after the variable since_ns (default: all), `unknown_gaps` those of them whose packets are
-- not known, and `missed_packets` the packets of the others: NULL where there are no others. Gaps in which packets of both
-- directions were dropped, not known how many of each, are in a row of direction `both`, which has no recording of its own:
-- `ended` is NULL. Data later than the variable now_ns (default: never) counts only if its recording has not ended or there
-- is no other data: a clock was ahead once.
WITH limits AS (
    SELECT coalesce(CAST(getvariable('now_ns') AS BIGINT), 9223372036854775807) AS now_ns
), of_recordings AS (
    SELECT rack, host, interface, direction, now_ns, max(end_ns) FILTER (end_ns <= now_ns) AS past_ns,
           arg_max({link_bps: link_bps, ended: ended, end_ns: end_ns},
                   {lives: ended = '' AND coalesce(list_contains(CAST(getvariable('live_writers') AS VARCHAR[]), writer_id), false),
                    runs: coalesce(ended = '' AND end_ns > now_ns, false), past: begun_ns <= now_ns,
                    ns: greatest(begun_ns, CASE WHEN ended = '' THEN end_ns END), id: recording_id}) AS newest
    FROM recordings CROSS JOIN limits WHERE boot_id IS NOT NULL GROUP BY ALL
), recorded_directions AS (
    SELECT rack, host, interface, direction, newest.link_bps AS link_bps, newest.ended AS ended,
           CASE WHEN newest.ended = '' AND newest.end_ns > now_ns THEN newest.end_ns ELSE coalesce(past_ns, newest.end_ns) END AS end_ns
    FROM of_recordings
), missed AS (
    SELECT rack, host, interface, direction, count(*) AS gaps, CAST(sum(packets) AS BIGINT) AS missed_packets,
           count(*) FILTER (packets IS NULL) AS unknown_gaps
    FROM gaps WHERE end_ns IS NULL OR end_ns > coalesce(CAST(getvariable('since_ns') AS BIGINT), end_ns - 1)
    GROUP BY ALL
), directions AS (
    FROM recorded_directions
    UNION ALL
    SELECT rack, host, interface, direction, NULL, NULL, NULL FROM missed
    WHERE direction = 'both' AND (rack, host, interface) IN (SELECT (rack, host, interface) FROM recorded_directions)
)
SELECT rack, host, interface, direction, link_bps, ended, greatest(end_ns, ts_ns) AS newest_ns, coalesce(gaps, 0) AS gaps,
       CASE WHEN gaps IS NULL THEN 0 ELSE missed_packets END AS missed_packets, coalesce(unknown_gaps, 0) AS unknown_gaps
FROM directions
LEFT JOIN (SELECT rack, host, interface, coalesce(max(ts_ns) FILTER (ts_ns <= now_ns), max(ts_ns)) AS ts_ns
           FROM clock CROSS JOIN limits GROUP BY ALL) USING (rack, host, interface)
LEFT JOIN missed USING (rack, host, interface, direction)
ORDER BY rack, host, interface, direction;
