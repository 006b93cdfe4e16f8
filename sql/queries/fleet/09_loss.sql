-- Loss: which bursts have retransmissions in them or soon after, by length, contention and fan-in.
--
--   length_class      the shortest burst of the class, ns: 0, 100 µs, 1 ms, 10 ms, 100 ms
--   contention_class  the fewest hosts of the rack in a burst when it begins, itself included: 1, 2, 4, 8, 16. As in
--                     `contention`, bursts count while they were recorded (a burst of wide bins can begin before its
--                     recording: it then begins with that), also those that began before the requested time, and
--                     switch ports stand in for hosts while these do not record what they receive
--   fan_in_class      the fewest senders: 0 (not known), 1, 2, 4, 8, 16, 32, 64
--   bursts            bursts of which retransmissions were counted
--   lossy             bursts with retransmissions in their bins, or after their end (retransmits_after)
--   low, high         95 % interval of lossy_share, by Wilson's score, as if bursts were independent of each other
WITH span AS (
    SELECT since_ns AS first_ns, until_ns AS last_ns FROM asked
), recorded AS (  -- a part for each day; bursts without any count whole
    SELECT rack, host, interface, direction, recording_id, clock_epoch, start_ns AS since_ns, end_ns AS until_ns FROM coverage
), parts AS (
    SELECT bursts.rack, bursts.host, bursts.direction, bursts.recording_id, bursts.clock_epoch, start_ns,
           GREATEST(start_ns, COALESCE(since_ns, start_ns)) AS from_ns, LEAST(end_ns, COALESCE(until_ns, end_ns)) AS to_ns,
           duration_ns, fan_in, retransmits + retransmits_after AS lost
    FROM bursts JOIN span ON start_ns < last_ns AND end_ns > first_ns
    LEFT JOIN recorded ON bursts.rack = recorded.rack AND bursts.host = recorded.host
        AND bursts.recording_id = recorded.recording_id AND bursts.clock_epoch = recorded.clock_epoch
        AND start_ns < until_ns AND end_ns > since_ns
    WHERE bursts.direction <> 'out'
), received AS (
    SELECT rack, host, recording_id, clock_epoch, start_ns, MIN(from_ns) AS at_ns, MAX(duration_ns) AS duration_ns,
           MAX(fan_in) AS fan_in, MAX(lost) AS lost
    FROM parts CROSS JOIN span WHERE start_ns >= first_ns
    GROUP BY rack, host, recording_id, clock_epoch, start_ns
), port_recorded AS (
    SELECT rack, host, interface, recording_id, clock_epoch, start_ns AS since_ns, end_ns AS until_ns FROM port_coverage
), port_parts AS (
    SELECT port_bursts.rack, port_bursts.host, port_bursts.interface, port_bursts.recording_id, port_bursts.clock_epoch,
           attached_host, attached_interface, start_ns,
           GREATEST(start_ns, COALESCE(since_ns, start_ns)) AS from_ns, LEAST(end_ns, COALESCE(until_ns, end_ns)) AS to_ns
    FROM port_bursts JOIN span ON start_ns < last_ns AND end_ns > first_ns
    LEFT JOIN port_recorded ON port_bursts.rack = port_recorded.rack AND port_bursts.host = port_recorded.host
        AND port_bursts.recording_id = port_recorded.recording_id AND port_bursts.clock_epoch = port_recorded.clock_epoch
        AND start_ns < until_ns AND end_ns > since_ns
    WHERE direction = 'out'
), port_wholes AS (
    SELECT rack, host, recording_id, clock_epoch, start_ns, SUM(to_ns - from_ns) AS whole_ns
    FROM port_parts GROUP BY rack, host, recording_id, clock_epoch, start_ns
), beside AS (  -- as counted_by_hosts of sql/macros.sql
    SELECT found.rack, found.host, found.recording_id, found.clock_epoch, found.start_ns
    FROM port_parts AS found JOIN recorded AS own ON own.direction <> 'out' AND own.rack = found.rack
        AND own.host = found.attached_host AND found.attached_interface IN ('', own.interface)
        AND from_ns < own.until_ns AND to_ns > own.since_ns
    JOIN port_wholes ON found.rack = port_wholes.rack AND found.host = port_wholes.host
        AND found.recording_id = port_wholes.recording_id AND found.clock_epoch = port_wholes.clock_epoch
        AND found.start_ns = port_wholes.start_ns
    GROUP BY found.rack, found.host, found.recording_id, found.clock_epoch, found.start_ns, own.interface, own.recording_id,
             own.clock_epoch, whole_ns
    HAVING SUM(LEAST(to_ns, own.until_ns) - GREATEST(from_ns, own.since_ns)) >= whole_ns
), heard AS (
    SELECT rack, host, from_ns AS start_ns, to_ns AS end_ns FROM parts
    UNION ALL
    SELECT rack, COALESCE(attached_host, host || ' ' || interface), from_ns, to_ns FROM port_parts WHERE NOT EXISTS (
        SELECT 1 FROM beside WHERE beside.rack = port_parts.rack AND beside.host = port_parts.host
            AND beside.recording_id = port_parts.recording_id AND beside.clock_epoch = port_parts.clock_epoch
            AND beside.start_ns = port_parts.start_ns)
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
    UNION ALL SELECT rack, at_ns, 0 FROM received
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
    FROM received JOIN bursting ON received.rack = bursting.rack AND received.at_ns = bursting.at_ns
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
