-- The bursts that begin in [span_since_ns, span_until_ns): the columns of bursts.sql, and what says of loss. `after` a
-- burst is after_ns from its end, but not beyond the start of the next one of its recording: nothing counts twice. Asked
-- of the tables that bursts.sql left.
WITH marked AS (  -- few bins: a condition on one column is tried before the other columns are read
    SELECT recording_id, clock_epoch, ts_ns, CAST(retransmits AS BIGINT) AS retransmits, CAST(0 AS BIGINT) AS ce_packets
    FROM bins WHERE retransmits > 0 AND ts_ns >= getvariable('span_since_ns')
    UNION ALL
    SELECT recording_id, clock_epoch, ts_ns, 0, CAST(ce_packets AS BIGINT)
    FROM bins WHERE ce_packets > 0 AND ts_ns >= getvariable('span_since_ns')
), losses AS (
    SELECT bursts.recording_id, bursts.clock_epoch, bursts.start_ns,
           sum(retransmits) FILTER (ts_ns < end_ns) AS retransmits, sum(ce_packets) FILTER (ts_ns < end_ns) AS ce_packets,
           sum(retransmits) FILTER (ts_ns >= end_ns) AS retransmits_after,
           sum(ce_packets) FILTER (ts_ns >= end_ns) AS ce_packets_after
    FROM marked ASOF JOIN bursts ON marked.recording_id = bursts.recording_id AND marked.clock_epoch = bursts.clock_epoch
        AND marked.ts_ns >= bursts.start_ns
    WHERE ts_ns < end_ns + getvariable('after_ns')  -- the last burst that began before the bin: no bin counts for two
    GROUP BY ALL
)
SELECT listed.* REPLACE (CAST(listed.clock_epoch AS INTEGER) AS clock_epoch),
       CAST(coalesce(retransmits, 0) AS BIGINT) AS retransmits,              -- BIGINT: in its bins, as in `bins`
       CAST(coalesce(ce_packets, 0) AS BIGINT) AS ce_packets,                -- BIGINT: likewise
       CAST(coalesce(retransmits_after, 0) AS BIGINT) AS retransmits_after,  -- BIGINT: after it
       CAST(coalesce(ce_packets_after, 0) AS BIGINT) AS ce_packets_after     -- BIGINT: likewise
FROM listed LEFT JOIN losses ON listed.recording_id = losses.recording_id AND listed.clock_epoch = losses.clock_epoch
    AND listed.start_ns = losses.start_ns
WHERE listed.start_ns >= getvariable('span_since_ns') AND listed.start_ns < getvariable('span_until_ns')
ORDER BY listed.start_ns, listed.recording_id, listed.clock_epoch;
