-- Switch queues: the maximum depth of each, and what it dropped, over the usable windows.
--
-- Settings are variables: since_ns and until_ns (windows that reach into that time).
SELECT device,      -- VARCHAR: as in `queues`
       port,        -- VARCHAR: as in `queues`
       queue,       -- VARCHAR: as in `queues`
       semantics,   -- VARCHAR: as in `queues`
       count(ts_ns) AS windows,                        -- BIGINT: usable windows
       coalesce(any_value(impossible), 0) AS impossible,  -- BIGINT: unusable windows, which are left out
       max(depth_bytes) AS max_bytes,                  -- BIGINT: depth of the fullest window
       known_quantile(depth_bytes, 0.99) AS p99_bytes, -- BIGINT: 99 % of the windows were no fuller
       total(dropped_packets) AS dropped_packets,        -- BIGINT: NULL if the device does not report it
       total(ecn_marked_packets) AS ecn_marked_packets   -- BIGINT: NULL if the device does not report it
FROM believable_windows('queues', coalesce(CAST(getvariable('since_ns') AS BIGINT), -9223372036854775808),
                        coalesce(CAST(getvariable('until_ns') AS BIGINT), 9223372036854775807))
    FULL JOIN impossible_windows('queues', coalesce(CAST(getvariable('since_ns') AS BIGINT), -9223372036854775808),
                                 coalesce(CAST(getvariable('until_ns') AS BIGINT), 9223372036854775807))
    USING (device, port, queue, semantics)
GROUP BY device, port, queue, semantics ORDER BY max_bytes DESC NULLS LAST, device, port, queue, semantics;
