-- Losses: how much is in the bursts that hosts receive, soon after them, and elsewhere: of the recorded time, of
-- retransmissions, of CE marks, and of the drops of switch queues.
--
--   after      in the time after a burst in which the table `bursts` counts them; NULL if that is not counted: for
--              time, and for switch drops, whose windows are longer
--   elsewhere  the rest. Drops have no row if no switch queue is tied to a host that was recorded
--   uncounted_ns  recorded time in which it was not counted (retransmissions by an older --backend ebpf): the others
--              are of the rest of the time, and NULL if that has no packets
WITH received AS (
    SELECT SUM(recorded_ns) AS recorded_ns, SUM(burst_ns) AS burst_ns, SUM(CASE WHEN packets > 0 THEN retransmits END) AS retransmits,
           SUM(CASE WHEN packets > 0 THEN burst_retransmits END) AS burst_retransmits,
           SUM(CASE WHEN packets > 0 THEN retransmits_after END) AS retransmits_after, SUM(ce_packets) AS ce_packets,
           SUM(burst_ce_packets) AS burst_ce_packets, SUM(ce_packets_after) AS ce_packets_after,
           SUM(CASE WHEN retransmits IS NULL THEN recorded_ns ELSE 0 END) AS uncounted_ns
    FROM hours CROSS JOIN asked WHERE hour_ns >= since_ns AND hour_ns < until_ns AND direction <> 'out'
), dropped AS (
    SELECT SUM(drops) AS drops, SUM(drops_in_bursts) AS drops_in_bursts FROM answer_switch_drops
)
SELECT 'time' AS measure, CAST(burst_ns AS BIGINT) AS in_bursts, CAST(NULL AS BIGINT) AS after,
       CAST(recorded_ns - burst_ns AS BIGINT) AS elsewhere, CAST(0 AS BIGINT) AS uncounted_ns
FROM received WHERE recorded_ns IS NOT NULL
UNION ALL
SELECT 'retransmits', CAST(burst_retransmits AS BIGINT), CAST(retransmits_after AS BIGINT),
       CAST(retransmits - burst_retransmits - retransmits_after AS BIGINT), CAST(uncounted_ns AS BIGINT)
FROM received WHERE recorded_ns IS NOT NULL
UNION ALL
SELECT 'ce_packets', CAST(burst_ce_packets AS BIGINT), CAST(ce_packets_after AS BIGINT),
       CAST(ce_packets - burst_ce_packets - ce_packets_after AS BIGINT), 0
FROM received WHERE recorded_ns IS NOT NULL
UNION ALL
SELECT 'drops', CAST(drops_in_bursts AS BIGINT), NULL, CAST(drops - drops_in_bursts AS BIGINT), 0
FROM dropped WHERE drops IS NOT NULL
