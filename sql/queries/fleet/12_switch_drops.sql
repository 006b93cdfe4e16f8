-- Switch drops: what the queue of the switch port of each host dropped, and how much of it while the host received a burst.
--
--   semantics             of a queue's windows: of several kinds, the one with the most windows
--   windows               windows of the queue in which the host was recorded and the device reported drops
--   drops                 packets that were dropped in them
--   drops_in_bursts       of these, in windows that touch a burst which the host received; drops_in_burst_share is their share
--   relative_risk         how many times as often a window has drops if it touches a burst; NULL where no window touches one,
--                         all do, or no other window has drops
WITH sums AS (
    SELECT device, port, queue, rack, host, interface, semantics, SUM(windows) AS windows, SUM(lossy_windows) AS lossy_windows,
           SUM(drops) AS drops, SUM(burst_windows) AS burst_windows, SUM(lossy_burst_windows) AS lossy_burst_windows,
           SUM(burst_drops) AS burst_drops
    FROM queue_drops CROSS JOIN asked WHERE hour_ns >= since_ns AND hour_ns < until_ns
    GROUP BY device, port, queue, rack, host, interface, semantics
), placed AS (
    SELECT sums.*, windows - burst_windows AS other_windows, lossy_windows - lossy_burst_windows AS lossy_other_windows,
           ROW_NUMBER() OVER (PARTITION BY device, port, queue, rack, host, interface ORDER BY windows DESC, semantics) AS place
    FROM sums
)
SELECT device,
       port,
       queue,
       rack,
       host,
       interface,
       semantics,
       CAST(windows AS BIGINT) AS windows,
       CAST(drops AS BIGINT) AS drops,
       CAST(burst_drops AS BIGINT) AS drops_in_bursts,
       CAST(burst_drops AS DOUBLE) / CAST(NULLIF(drops, 0) AS DOUBLE) AS drops_in_burst_share,
       CAST(lossy_burst_windows AS DOUBLE) * CAST(other_windows AS DOUBLE)
           / (CAST(NULLIF(burst_windows, 0) AS DOUBLE) * CAST(NULLIF(lossy_other_windows, 0) AS DOUBLE)) AS relative_risk
FROM placed WHERE place = 1
ORDER BY drops DESC, device, port, queue, rack, host, interface
