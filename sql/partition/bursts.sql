-- The bursts that begin in [span_since_ns, span_until_ns): the columns of bursts.sql, and the signs of loss. `after` a
-- burst means for after_ns from its end, but not beyond the start of the next burst of its recording: nothing counts
-- twice. Reads the tables that bursts.sql and cells.sql create.
WITH uncounted AS (  -- a burst in the span has bins in `cells`
    SELECT recording_id FROM lanes WHERE lane IN (SELECT lane FROM cells WHERE retransmits IS NULL)
), losses_of AS (
    SELECT recording_id, clock_epoch, start_ns, sum(retransmits) AS retransmits, sum(ce_packets) AS ce_packets,
           sum(retransmits_after) AS retransmits_after, sum(ce_packets_after) AS ce_packets_after
    FROM losses GROUP BY ALL
)
SELECT listed.* EXCLUDE (services)  -- names belong to stores: results have addresses
       REPLACE (CAST(listed.clock_epoch AS INTEGER) AS clock_epoch,
                list_transform(top_sources, lambda top: {source: top.source, bytes: top.bytes, share: top.share}) AS top_sources),
       CASE WHEN uncounted.recording_id IS NULL THEN CAST(coalesce(retransmits, 0) AS BIGINT) END AS retransmits, -- BIGINT: in its bins, as in `bins`; NULL: not counted
       CAST(coalesce(ce_packets, 0) AS BIGINT) AS ce_packets,                -- BIGINT: likewise
       CASE WHEN uncounted.recording_id IS NULL THEN CAST(coalesce(retransmits_after, 0) AS BIGINT) END AS retransmits_after, -- BIGINT: after it; NULL: not counted
       CAST(coalesce(ce_packets_after, 0) AS BIGINT) AS ce_packets_after     -- BIGINT: likewise
FROM listed LEFT JOIN losses_of ON listed.recording_id = losses_of.recording_id AND listed.clock_epoch = losses_of.clock_epoch
    AND listed.start_ns = losses_of.start_ns
LEFT JOIN uncounted ON listed.recording_id = uncounted.recording_id
WHERE listed.start_ns >= getvariable('span_since_ns') AND listed.start_ns < getvariable('span_until_ns')
ORDER BY listed.start_ns, listed.recording_id, listed.clock_epoch;
