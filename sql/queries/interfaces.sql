-- Interfaces that were recorded: the newest data of each direction, how its recording ended, and what was not counted.
-- `newest_ns` is of the newest bin, or of the newest reading of the clocks where no packet came. `ended` is '' while it is
-- recorded. `gaps` counts those that ended after the variable since_ns (default: all), and `missed_packets` what the
-- interface's counters know of them.
SELECT rack, host, interface, direction, link_bps, ended, greatest(end_ns, ts_ns) AS newest_ns,
       coalesce(gap_count, 0) AS gaps, coalesce(missed, 0) AS missed_packets
FROM (SELECT rack, host, interface, direction, arg_max(link_bps, begun_ns) AS link_bps, arg_max(ended, begun_ns) AS ended,
             max(end_ns) AS end_ns
      FROM recordings WHERE boot_id IS NOT NULL GROUP BY ALL)
LEFT JOIN (SELECT rack, host, interface, max(ts_ns) AS ts_ns FROM clock GROUP BY ALL) USING (rack, host, interface)
LEFT JOIN (SELECT rack, host, interface, direction, count(*) AS gap_count, CAST(sum(packets) AS BIGINT) AS missed
           FROM gaps WHERE end_ns IS NULL OR end_ns > coalesce(CAST(getvariable('since_ns') AS BIGINT), end_ns - 1)
           GROUP BY ALL) USING (rack, host, interface, direction)
ORDER BY rack, host, interface, direction;
