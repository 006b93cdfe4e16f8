-- Loss: which bursts have retransmissions in them or soon after, by length, contention and fan-in.
--
--   length_class      the shortest burst of the class, ns: 0, 100 µs, 1 ms, 10 ms, 100 ms
--   contention_class  the fewest hosts of the rack in a burst when it begins, itself included: 1, 2, 4, 8, 16; switch
--                     ports stand in for hosts while these do not record what they receive, as in `contention`
--   fan_in_class      the fewest senders: 0 (not known), 1, 2, 4, 8, 16, 32, 64
--   bursts            bursts of which retransmissions were counted
--   lossy             bursts with retransmissions in their bins, or after their end (retransmits_after)
--   low, high         95 % interval of lossy_share, by Wilson's score, as if bursts were independent of each other
WITH received AS (
    SELECT rack, host, start_ns, end_ns, duration_ns, fan_in, retransmits + retransmits_after AS lost
    FROM bursts CROSS JOIN asked WHERE start_ns >= since_ns AND start_ns < until_ns AND direction <> 'out'
), own AS (
    SELECT rack, host, interface, recording_id, clock_epoch, start_ns AS since_ns, end_ns AS until_ns
    FROM coverage WHERE direction <> 'out'
), beside AS (  -- as counted_by_hosts of sql/macros.sql
    SELECT port_bursts.rack, port_bursts.host, port_bursts.interface, port_bursts.recording_id, start_ns
    FROM port_bursts JOIN own ON own.rack = port_bursts.rack AND own.host = port_bursts.attached_host
        AND port_bursts.attached_interface IN ('', own.interface) AND start_ns < until_ns AND end_ns > since_ns
    GROUP BY port_bursts.rack, port_bursts.host, port_bursts.interface, port_bursts.recording_id, start_ns, end_ns,
             own.interface, own.recording_id, own.clock_epoch
    HAVING SUM(LEAST(end_ns, until_ns) - GREATEST(start_ns, since_ns)) >= end_ns - start_ns
), standing_in AS (
    SELECT rack, COALESCE(attached_host, host || ' ' || interface) AS host, start_ns, end_ns FROM port_bursts CROSS JOIN asked
    WHERE start_ns >= since_ns AND start_ns < until_ns AND direction = 'out' AND NOT EXISTS (
        SELECT 1 FROM beside WHERE beside.rack = port_bursts.rack AND beside.host = port_bursts.host
            AND beside.interface = port_bursts.interface AND beside.recording_id = port_bursts.recording_id
            AND beside.start_ns = port_bursts.start_ns)
), heard AS (
    SELECT rack, host, start_ns, end_ns FROM received UNION ALL SELECT rack, host, start_ns, end_ns FROM standing_in
), reached AS (
    SELECT rack, host, start_ns, end_ns,
           MAX(end_ns) OVER (PARTITION BY rack, host ORDER BY start_ns, end_ns
                             ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS reached_ns
    FROM heard
), islands AS (
    SELECT rack, host, start_ns, end_ns,
           SUM(CASE WHEN start_ns <= reached_ns THEN 0 ELSE 1 END) OVER (
               PARTITION BY rack, host ORDER BY start_ns, end_ns) AS place  -- no ROWS: rows with the same start and end have one place
    FROM reached
), of_hosts AS (
    SELECT rack, MIN(start_ns) AS start_ns, MAX(end_ns) AS end_ns FROM islands GROUP BY rack, host, place
), edges AS (
    SELECT rack, start_ns AS at_ns, 1 AS change FROM of_hosts
    UNION ALL SELECT rack, end_ns, -1 FROM of_hosts
    UNION ALL SELECT rack, start_ns, 0 FROM received
), changes AS (
    SELECT rack, at_ns, SUM(change) AS change FROM edges GROUP BY rack, at_ns
), bursting AS (
    SELECT rack, at_ns, SUM(change) OVER (PARTITION BY rack ORDER BY at_ns ROWS UNBOUNDED PRECEDING) AS hosts FROM changes
), classed AS (
    SELECT CASE WHEN duration_ns >= 100000000 THEN 100000000 WHEN duration_ns >= 10000000 THEN 10000000
                WHEN duration_ns >= 1000000 THEN 1000000 WHEN duration_ns >= 100000 THEN 100000 ELSE 0 END AS length_class,
           CASE WHEN hosts >= 16 THEN 16 WHEN hosts >= 8 THEN 8 WHEN hosts >= 4 THEN 4 WHEN hosts >= 2 THEN 2
                ELSE 1 END AS contention_class,
           CASE WHEN fan_in >= 64 THEN 64 WHEN fan_in >= 32 THEN 32 WHEN fan_in >= 16 THEN 16 WHEN fan_in >= 8 THEN 8
                WHEN fan_in >= 4 THEN 4 WHEN fan_in >= 2 THEN 2 WHEN fan_in >= 1 THEN 1 ELSE 0 END AS fan_in_class,
           CASE WHEN lost > 0 THEN 1 ELSE 0 END AS is_lossy
    FROM received JOIN bursting ON received.rack = bursting.rack AND received.start_ns = bursting.at_ns
    WHERE lost IS NOT NULL
), counted AS (
    SELECT length_class, contention_class, fan_in_class, COUNT(*) AS bursts, SUM(is_lossy) AS lossy,
           CAST(COUNT(*) AS DOUBLE) AS n, CAST(SUM(is_lossy) AS DOUBLE) / CAST(COUNT(*) AS DOUBLE) AS p, 1.959963985e0 AS z
    FROM classed GROUP BY length_class, contention_class, fan_in_class
), wilson AS (
    SELECT length_class, contention_class, fan_in_class, bursts, lossy, p, (p + z * z / (2e0 * n)) / (1e0 + z * z / n) AS middle,
           z * SQRT(p * (1e0 - p) / n + z * z / (4e0 * n * n)) / (1e0 + z * z / n) AS half
    FROM counted
)
SELECT length_class,
       contention_class,
       fan_in_class,
       bursts,
       CAST(lossy AS BIGINT) AS lossy,
       p AS lossy_share,
       GREATEST(middle - half, 0e0) AS low,
       LEAST(middle + half, 1e0) AS high
FROM wilson ORDER BY length_class, contention_class, fan_in_class
