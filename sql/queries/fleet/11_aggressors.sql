-- Aggressors: which senders are in the fan-in of bursts of many hosts and racks.
--
--   source, service  the address of the sender, and its service if the inventory has that address at the time of one of
--                    these bursts; of several services, the first by name
--   racks, hosts     racks and hosts that received these bursts
--   led              bursts in which it sent more than every other sender; if several sent the most, no sender led the
--                    burst
--   first_seen       start of the first of its bursts in the results, on any date (Unix ns)
--   new_this_week    whether it was first seen in the seven days before the end of the requested time; NULL if the
--                    results do not go back further than that
WITH leaders AS (
    SELECT senders.rack, senders.host, recording_id, clock_epoch, start_ns
    FROM senders CROSS JOIN asked WHERE place <= 2 AND start_ns >= since_ns AND start_ns < until_ns
    GROUP BY senders.rack, senders.host, recording_id, clock_epoch, start_ns
    HAVING COUNT(*) = 1 OR MAX(bytes) > MIN(bytes)
), seen AS (
    SELECT source, senders.rack, senders.host, senders.recording_id, senders.clock_epoch, senders.start_ns, place,
           senders.bytes
    FROM senders JOIN bursts ON senders.rack = bursts.rack AND senders.host = bursts.host
        AND senders.recording_id = bursts.recording_id AND senders.clock_epoch = bursts.clock_epoch
        AND senders.start_ns = bursts.start_ns
    WHERE in_fan_in AND members = 1 AND direction <> 'out'
), first_times AS (
    SELECT source, MIN(start_ns) AS first_seen FROM seen GROUP BY source
), oldest AS (
    SELECT MIN(hour_ns) AS oldest_ns FROM hours
), of_hosts AS (
    SELECT source, seen.rack, seen.host, COUNT(*) AS bursts, SUM(bytes) AS bytes,
           SUM(CASE WHEN place = 1 AND leaders.host IS NOT NULL THEN 1 ELSE 0 END) AS led
    FROM seen CROSS JOIN asked LEFT JOIN leaders ON seen.rack = leaders.rack AND seen.host = leaders.host
        AND seen.recording_id = leaders.recording_id AND seen.clock_epoch = leaders.clock_epoch
        AND seen.start_ns = leaders.start_ns
    WHERE seen.start_ns >= since_ns AND seen.start_ns < until_ns GROUP BY source, seen.rack, seen.host
), sums AS (
    SELECT source, COUNT(DISTINCT rack) AS racks, COUNT(*) AS hosts, SUM(bursts) AS bursts, SUM(led) AS led, SUM(bytes) AS bytes
    FROM of_hosts GROUP BY source
), services AS (
    SELECT address, MIN(service) AS service
    FROM seen JOIN inventory ON source = address CROSS JOIN asked
    WHERE start_ns >= since_ns AND start_ns < until_ns
        AND COALESCE(start_ns >= added_ns, TRUE) AND COALESCE(start_ns < removed_ns, TRUE)
    GROUP BY address
)
SELECT sums.source,
       services.service,
       sums.racks,
       sums.hosts,
       CAST(sums.bursts AS BIGINT) AS bursts,
       CAST(sums.led AS BIGINT) AS led,
       CAST(sums.bytes AS BIGINT) AS bytes,
       first_times.first_seen,
       CASE WHEN oldest.oldest_ns < asked.until_ns - 604800000000000
            THEN first_times.first_seen >= asked.until_ns - 604800000000000 END AS new_this_week
FROM sums JOIN first_times ON sums.source = first_times.source LEFT JOIN services ON sums.source = services.address
CROSS JOIN oldest CROSS JOIN asked
ORDER BY sums.racks DESC, sums.hosts DESC, sums.bursts DESC, sums.source
