-- For stores in which files of bins are damaged or were set aside: the view `recorded` without the times from the first
-- bin to the last of these files. The first remaining row of a recording has all of its dropped packets.
CREATE TABLE defined.missing_bins (writer_id VARCHAR, rack VARCHAR, host VARCHAR, first_ns BIGINT, last_ns BIGINT);

ALTER VIEW recorded RENAME TO recorded_in_all;

CREATE VIEW recorded AS
WITH cuts AS (
    SELECT whole.recording_id, clock_epoch, start_ns, first_ns AS since_ns, last_ns + bin_ns AS until_ns
    FROM recorded_in_all AS whole
    JOIN (SELECT recording_id, writer_id FROM main.recordings) AS written USING (recording_id)
    JOIN defined.missing_bins AS missing ON missing.writer_id IN ('', written.writer_id)
        AND missing.rack IN ('', whole.rack) AND missing.host IN ('', whole.host)
        AND first_ns < end_ns AND last_ns + bin_ns > start_ns
    UNION ALL
    SELECT recording_id, clock_epoch, start_ns, end_ns, end_ns FROM recorded_in_all
), pieces AS (
    SELECT recording_id, clock_epoch, coalesce(max(until_ns) OVER earlier, start_ns) AS from_ns, since_ns AS to_ns
    FROM cuts WINDOW earlier AS (PARTITION BY recording_id, clock_epoch ORDER BY since_ns, until_ns
                                 ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)
), placed AS (
    SELECT *, row_number() OVER (PARTITION BY recording_id ORDER BY clock_epoch, from_ns) = 1 AS is_first
    FROM pieces WHERE from_ns < to_ns
), missed AS (
    SELECT recording_id, max(dropped) AS dropped_in_all, max(late) AS late_in_all FROM recorded_in_all GROUP BY recording_id
)
SELECT whole.* REPLACE (from_ns AS start_ns, to_ns AS end_ns, CASE WHEN is_first THEN dropped_in_all ELSE 0 END AS dropped,
                        CASE WHEN is_first THEN late_in_all ELSE 0 END AS late)
FROM recorded_in_all AS whole JOIN placed USING (recording_id, clock_epoch) JOIN missed USING (recording_id);
