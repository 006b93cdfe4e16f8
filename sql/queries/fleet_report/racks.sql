-- Racks: what the hosts of each rack receive, as sums of `hours`.
--
--   hosts, bursting_hosts  hosts that were recorded, and those of them that received a burst
--   retransmits, wire_bytes  of hours with packets in which retransmissions were counted; NULL: there is none
--   burst_ns, recorded_ns  summed over interfaces: burst_ns / recorded_ns is the burst_share of worst_hosts
SELECT rack,
       COUNT(DISTINCT host) AS hosts,
       COUNT(DISTINCT CASE WHEN bursts > 0 THEN host END) AS bursting_hosts,
       CAST(SUM(bursts) AS BIGINT) AS bursts,
       CAST(SUM(burst_ns) AS BIGINT) AS burst_ns,
       CAST(SUM(recorded_ns) AS BIGINT) AS recorded_ns,
       CAST(SUM(CASE WHEN packets > 0 THEN retransmits END) AS BIGINT) AS retransmits,
       CAST(SUM(CASE WHEN packets > 0 AND retransmits IS NOT NULL THEN wire_bytes END) AS BIGINT) AS wire_bytes
FROM hours CROSS JOIN asked
WHERE hour_ns >= since_ns AND hour_ns < until_ns AND direction <> 'out' AND recorded_ns > 0
GROUP BY rack
ORDER BY rack
