-- Packets that the queue of each switch port dropped in each hour of the span, for ports that a link ties to a host: in
-- windows that touch a burst which the host received, and in total. Rows add up. Reads the tables that bursts.sql
-- creates.
--
-- A window counts in the hour in which it starts, if the host was recorded for all of it and the device reported the
-- drops. Without a queue in the link, all queues at the port's output count, each packet once (windows_of_port). Times
-- are as the device and the host stamped them: if the clock of a device differs by more than a window, its drops appear
-- beside the bursts. A link without an interface stands for all interfaces of the host; links hold as in `links_at`.
-- Of windows with the same packets (counted_elsewhere), those that count are chosen for each span: if another choice is
-- made for the next span, the packets of a window across the edge may count twice or not at all.
WITH heard AS (
    SELECT rack, host, interface, start_ns, end_ns FROM recorded
    WHERE direction <> 'out' AND recording_id IN (SELECT recording_id FROM lanes WHERE backend <> 'otlp')
), attached AS (  -- the time of each of these recordings in which a link of its host holds
    SELECT DISTINCT heard.rack, heard.host, periods.interface, device, port, queue AS link_queue,
           greatest(start_ns, since_ns) AS since_ns, least(end_ns, until_ns) AS until_ns
    FROM link_periods('links') AS periods JOIN heard ON periods.host = heard.host AND periods.rack IN ('', heard.rack)
        AND periods.interface IN ('', heard.interface)
    WHERE since_ns < end_ns AND coalesce(until_ns > start_ns, true)
), counting AS MATERIALIZED (
    FROM believable_windows('queues', getvariable('span_since_ns'), getvariable('span_until_ns'))
    WHERE dropped_packets IS NOT NULL AND window_start_ns < ts_ns
), windows AS (
    SELECT DISTINCT rack, host, interface, device, port, queue, semantics, window_start_ns, ts_ns,
           CAST(dropped_packets AS HUGEINT) AS dropped_packets
    FROM windows_of_port('counting') JOIN attached USING (device, port)
    WHERE (link_queue = queue OR link_queue = '' AND is_of_port)
      AND window_start_ns >= since_ns AND ts_ns <= until_ns
      AND window_start_ns >= getvariable('span_since_ns') AND window_start_ns < getvariable('span_until_ns')
), received AS (
    SELECT DISTINCT attached.rack, attached.host, attached.interface, start_ns, end_ns
    FROM bursts JOIN attached ON bursts.rack = attached.rack AND bursts.host = attached.host
        AND attached.interface IN ('', bursts.interface)
    WHERE direction <> 'out' AND recording_id IN (SELECT recording_id FROM lanes WHERE backend <> 'otlp')
), reached AS (  -- latest end of the bursts that began until then
    SELECT rack, host, interface, start_ns, max(end_ns) OVER (
        PARTITION BY rack, host, interface ORDER BY start_ns, end_ns ROWS UNBOUNDED PRECEDING) AS reached_ns
    FROM received
    QUALIFY lead(start_ns) OVER (PARTITION BY rack, host, interface ORDER BY start_ns, end_ns) IS DISTINCT FROM start_ns
), met AS (
    SELECT windows.*, coalesce(reached_ns > window_start_ns, false) AS in_burst
    FROM windows ASOF LEFT JOIN reached ON windows.rack = reached.rack AND windows.host = reached.host
        AND windows.interface = reached.interface AND windows.ts_ns > reached.start_ns
)
SELECT rack,                                                   -- VARCHAR: rack of the host
       host,                                                   -- VARCHAR: the host that the link names
       interface,                                              -- VARCHAR: the interface that the link names; '' for all of the host
       device,                                                 -- VARCHAR: as in `queues`
       port,                                                   -- VARCHAR: as in `queues`
       queue,                                                  -- VARCHAR: as in `queues`
       semantics,                                              -- VARCHAR: as in `queues`
       bin_start(window_start_ns, 3600000000000) AS hour_ns,   -- BIGINT: when the hour begins
       count(*) AS windows,                                    -- BIGINT: windows that start in the hour
       count(*) FILTER (dropped_packets > 0) AS lossy_windows, -- BIGINT: of these, with drops
       total(dropped_packets) AS drops,                        -- BIGINT: packets that were dropped in the windows of the hour
       count(*) FILTER (in_burst) AS burst_windows,            -- BIGINT: windows that touch a burst of the host
       count(*) FILTER (in_burst AND dropped_packets > 0) AS lossy_burst_windows,    -- BIGINT: of these, with drops
       coalesce(total(CASE WHEN in_burst THEN dropped_packets END), 0) AS burst_drops -- BIGINT: packets that were dropped in windows that touch a burst
FROM met GROUP BY ALL ORDER BY hour_ns, device, port, queue, semantics, rack, host, interface;
