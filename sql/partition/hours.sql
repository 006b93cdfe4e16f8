-- Each hour of each recording in the span: what was recorded, what was sent, and how bins follow one another. All
-- columns but `quality` (whose bits are joined by `or`) add up: over hours, recordings and hosts with one bin_ns and
-- link_bps. An interface that two recordings cover counts in both. Reads the tables that bursts.sql and cells.sql
-- create.
WITH hot AS (
    SELECT lane, clock_epoch, ts_ns, bin_ns,
           coalesce(lag(ts_ns) OVER earlier = ts_ns - bin_ns, false) AS after_hot,
           coalesce(lead(ts_ns) OVER earlier = ts_ns + bin_ns, false) AS before_hot
    FROM warm JOIN (SELECT lane, bin_ns, hot_bytes FROM lanes) USING (lane)
    WHERE wire_bytes >= hot_bytes
    WINDOW earlier AS (PARTITION BY lane, clock_epoch ORDER BY ts_ns)
), placed AS (  -- whether the bins before and after it were recorded
    SELECT hot.*, ts_ns > bin_start(start_ns, hot.bin_ns) AS follows, ts_ns + hot.bin_ns < end_ns AS is_followed
    FROM hot JOIN (SELECT recording_id, lane FROM lanes) USING (lane)
    JOIN recorded_times USING (recording_id, clock_epoch)
), following AS (
    SELECT lane, clock_epoch, bin_start(ts_ns, 3600000000000) AS hour_ns, count(*) AS hot_bins,
           count(*) FILTER (after_hot) AS hot_hot, count(*) FILTER (follows AND NOT after_hot) AS cold_hot
    FROM placed WHERE ts_ns >= getvariable('span_since_ns') AND ts_ns < getvariable('span_until_ns')
    GROUP BY lane, clock_epoch, hour_ns
), leaving AS (
    SELECT lane, clock_epoch, bin_start(ts_ns + bin_ns, 3600000000000) AS hour_ns, count(*) AS hot_cold
    FROM placed
    WHERE is_followed AND NOT before_hot
      AND ts_ns + bin_ns >= getvariable('span_since_ns') AND ts_ns + bin_ns < getvariable('span_until_ns')
    GROUP BY lane, clock_epoch, hour_ns
), sent AS (
    SELECT lane, clock_epoch, hour_ns, sum(bytes) AS bytes, sum(wire_bytes) AS wire_bytes, sum(packets) AS packets,
           sum(retransmits) AS retransmits, count(retransmits) < count(*) AS is_uncounted,
           sum(ce_packets) AS ce_packets, sum(losing_bins) AS losing_bins, bit_or(quality) AS quality
    FROM cells GROUP BY lane, clock_epoch, hour_ns
), lost AS (
    SELECT lane, clock_epoch, hour_ns, sum(retransmits) AS retransmits, sum(ce_packets) AS ce_packets,
           sum(retransmits_after) AS retransmits_after, sum(ce_packets_after) AS ce_packets_after
    FROM losses JOIN (SELECT lane, recording_id FROM lanes) USING (recording_id) GROUP BY lane, clock_epoch, hour_ns
), begun AS (
    SELECT lane, clock_epoch, bin_start(start_ns, 3600000000000) AS hour_ns, count(*) AS bursts
    FROM bursts JOIN (SELECT lane, recording_id FROM lanes) USING (recording_id)
    WHERE start_ns >= getvariable('span_since_ns') AND start_ns < getvariable('span_until_ns')
    GROUP BY lane, clock_epoch, hour_ns
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
       recorded_ns,                                  -- BIGINT: time of the hour that was recorded
       bins,                                         -- BIGINT: recorded bins that start in the hour, idle ones included
       CAST(coalesce(hot_bins, 0) AS BIGINT) AS hot_bins,           -- BIGINT: of these, at or above the threshold
       pairs,                                        -- BIGINT: of `bins`, those that follow another bin of the recording
       CAST(coalesce(hot_hot, 0) AS BIGINT) AS hot_hot,             -- BIGINT: hot bins that follow a hot bin
       CAST(coalesce(cold_hot, 0) AS BIGINT) AS cold_hot,           -- BIGINT: hot bins that follow a bin that is not hot
       CAST(coalesce(hot_cold, 0) AS BIGINT) AS hot_cold,           -- BIGINT: bins that are not hot and follow a hot bin; the rest of `pairs` has no hot bin
       CAST(coalesce(sent.bytes, 0) AS BIGINT) AS bytes,            -- BIGINT: as in `bins`
       CAST(coalesce(wire_bytes, 0) AS BIGINT) AS wire_bytes,       -- BIGINT: likewise
       CAST(coalesce(sent.packets, 0) AS BIGINT) AS packets,        -- BIGINT: likewise
       CAST(CASE WHEN is_uncounted THEN NULL ELSE coalesce(sent.retransmits, 0) END AS BIGINT) AS retransmits, -- BIGINT: as in `bins`; NULL: not counted
       CAST(coalesce(sent.ce_packets, 0) AS BIGINT) AS ce_packets,       -- BIGINT: likewise
       CAST(coalesce(losing_bins, 0) AS BIGINT) AS losing_bins,     -- BIGINT: bins in which packets were dropped, or samples of a switch are missing: their counts are lower bounds
       CAST(coalesce(quality, 0) AS INTEGER) AS quality,            -- INTEGER: bit set of the bins, see `quality`
       CAST(coalesce(bursts, 0) AS BIGINT) AS bursts,               -- BIGINT: bursts that begin in the hour
       CAST(coalesce(burst_hours.bytes, 0) AS BIGINT) AS burst_bytes,     -- BIGINT: of `bytes`, those in bursts, whenever the bursts began
       CAST(coalesce(burst_hours.packets, 0) AS BIGINT) AS burst_packets, -- BIGINT: of `packets`, those in bursts
       CAST(coalesce(burst_hours.ns, 0) AS BIGINT) AS burst_ns,           -- BIGINT: of `recorded_ns`, the time in bursts
       CAST(CASE WHEN is_uncounted THEN NULL ELSE coalesce(lost.retransmits, 0) END AS BIGINT) AS burst_retransmits, -- BIGINT: of `retransmits`, those in bursts
       CAST(coalesce(lost.ce_packets, 0) AS BIGINT) AS burst_ce_packets,   -- BIGINT: of `ce_packets`, those in bursts
       CAST(CASE WHEN is_uncounted THEN NULL ELSE coalesce(retransmits_after, 0) END AS BIGINT) AS retransmits_after, -- BIGINT: of `retransmits`, those after a burst
       CAST(coalesce(ce_packets_after, 0) AS BIGINT) AS ce_packets_after    -- BIGINT: of `ce_packets`, those after a burst
FROM recorded_hours JOIN lanes USING (lane)
LEFT JOIN following USING (lane, clock_epoch, hour_ns) LEFT JOIN leaving USING (lane, clock_epoch, hour_ns)
LEFT JOIN sent USING (lane, clock_epoch, hour_ns) LEFT JOIN begun USING (lane, clock_epoch, hour_ns)
LEFT JOIN burst_hours USING (lane, clock_epoch, hour_ns) LEFT JOIN lost USING (lane, clock_epoch, hour_ns)
ORDER BY hour_ns, recording_id, clock_epoch;
