-- Coverage: how many hosts of each rack recorded, for how much of the day, and what has not arrived.
--
--   hosts_expected  hosts of the inventory (on days that touch their time from added_ns until removed_ns), and hosts that
--                   recorded or have ever shipped and are behind. Switches do not count, nor do collectors, which ship
--                   what switches sent and no recording of their own
--   expected_ns     the sum of the times for which these hosts are expected: a day each, or what the inventory states of
--                   it, and at least as long as they recorded. A host that was removed in the 20 minutes before a day
--                   is expected on it for as long as it recorded, until 20 minutes after its removal
--   recorded_share  their recorded time, of that; of several interfaces of a host, the one recorded for longest counts
--   losing_share    share of the recorded bins in which packets were dropped, or samples of a switch are missing: their
--                   counts are lower bounds
--   behind_ns       how much of the day has not arrived from the host or collector that is furthest behind; a whole day
--                   if it never shipped
--   missing         files and tables that a host could not ship, such as damaged files
WITH asked_hours AS (
    SELECT * FROM hours CROSS JOIN asked WHERE hour_ns >= since_ns AND hour_ns < until_ns
), asked_incomplete AS (
    SELECT * FROM incomplete CROSS JOIN asked WHERE day_ns >= since_ns AND day_ns < until_ns
), lanes AS (
    SELECT date, rack, host, interface, direction, hour_ns, LEAST(SUM(recorded_ns), 3600000000000) AS recorded_ns,
           SUM(bins) AS bins, SUM(losing_bins) AS losing_bins
    FROM asked_hours GROUP BY date, rack, host, interface, direction, hour_ns
), of_hours AS (
    SELECT date, rack, host, MAX(recorded_ns) AS recorded_ns, SUM(bins) AS bins, SUM(losing_bins) AS losing_bins
    FROM lanes GROUP BY date, rack, host, hour_ns
), recorded AS (
    SELECT date, rack, host, SUM(recorded_ns) AS recorded_ns, SUM(bins) AS bins, SUM(losing_bins) AS losing_bins
    FROM of_hours GROUP BY date, rack, host HAVING SUM(recorded_ns) > 0
), asked_ports AS (
    SELECT DISTINCT date, rack, hour_ns - hour_ns % 86400000000000 AS day_ns
    FROM port_hours CROSS JOIN asked WHERE hour_ns >= since_ns AND hour_ns < until_ns
), dates AS (
    SELECT date, hour_ns - hour_ns % 86400000000000 AS day_ns FROM asked_hours
    UNION SELECT date, day_ns FROM asked_incomplete
    UNION SELECT date, day_ns FROM asked_ports
), listed AS (
    SELECT date, rack, host,
           GREATEST(LEAST(COALESCE(removed_ns, day_ns + 86400000000000), day_ns + 86400000000000), day_ns)
               - LEAST(GREATEST(COALESCE(added_ns, day_ns), day_ns), day_ns + 86400000000000) AS listed_ns,
           CASE WHEN removed_ns <= day_ns AND removed_ns > day_ns - 1200000000000
                THEN removed_ns + 1200000000000 - day_ns ELSE 0 END AS stopping_ns
    FROM dates CROSS JOIN inventory
), known AS (
    SELECT date, rack, host FROM recorded
    UNION SELECT date, rack, host FROM asked_incomplete WHERE host IS NOT NULL AND reason <> 'collector behind'
    UNION SELECT date, rack, host FROM listed WHERE listed_ns > 0
), switches AS (
    SELECT rack, host FROM port_hours EXCEPT SELECT rack, host FROM hours
), expected AS (
    SELECT known.date, known.rack, known.host,
           CASE WHEN listed.listed_ns > 0 THEN listed.listed_ns ELSE 86400000000000 END AS expected_ns, stopping_ns
    FROM known
    LEFT JOIN switches ON known.rack = switches.rack AND known.host = switches.host
    LEFT JOIN listed ON known.date = listed.date AND known.rack = listed.rack AND known.host = listed.host
    WHERE switches.host IS NULL
), racks AS (
    SELECT date, rack FROM expected UNION SELECT date, rack FROM asked_incomplete UNION SELECT date, rack FROM asked_ports
), counted AS (
    SELECT expected.date, expected.rack, COUNT(*) AS hosts_expected, COUNT(recorded.host) AS hosts_recorded,
           SUM(recorded.recorded_ns) AS recorded_ns, SUM(recorded.bins) AS bins, SUM(recorded.losing_bins) AS losing_bins,
           SUM(CASE WHEN recorded.recorded_ns <= stopping_ns THEN recorded.recorded_ns
                    ELSE GREATEST(expected_ns, COALESCE(recorded.recorded_ns, 0)) END) AS expected_ns
    FROM expected LEFT JOIN recorded
        ON expected.date = recorded.date AND expected.rack = recorded.rack AND expected.host = recorded.host
    GROUP BY expected.date, expected.rack
), lacking AS (
    SELECT date, rack, MAX(CASE WHEN host IS NOT NULL THEN COALESCE(behind_ns, 86400000000000) END) AS behind_ns,
           SUM(CASE WHEN host IS NULL THEN 1 ELSE 0 END) AS missing
    FROM asked_incomplete GROUP BY date, rack
)
SELECT racks.date,
       racks.rack,
       COALESCE(counted.hosts_expected, 0) AS hosts_expected,
       COALESCE(counted.hosts_recorded, 0) AS hosts_recorded,
       CAST(COALESCE(counted.expected_ns, 0) AS BIGINT) AS expected_ns,
       COALESCE(CAST(counted.recorded_ns AS DOUBLE) / CAST(counted.expected_ns AS DOUBLE), 0e0) AS recorded_share,
       CAST(counted.losing_bins AS DOUBLE) / CAST(NULLIF(counted.bins, 0) AS DOUBLE) AS losing_share,
       COALESCE(lacking.behind_ns, 0) AS behind_ns,
       CAST(COALESCE(lacking.missing, 0) AS BIGINT) AS missing
FROM racks LEFT JOIN counted ON racks.date = counted.date AND racks.rack = counted.rack
LEFT JOIN lacking ON racks.date = lacking.date AND racks.rack = lacking.rack
ORDER BY racks.date, racks.rack
