-- Usable windows of switch queues, each once however many collections reported it.
CREATE VIEW queue_windows AS
SELECT batch,               -- VARCHAR: the first that reported it
       device,              -- VARCHAR: as in `queues`
       port,                -- VARCHAR: as in `queues`
       queue,               -- VARCHAR: as in `queues`
       semantics,           -- VARCHAR: as in `queues`
       window_start_ns,     -- BIGINT: as in `queues`
       ts_ns,               -- BIGINT: as in `queues`
       depth_bytes,         -- BIGINT: `max_bytes`, or `avg_bytes` where the device gave no maximum
       max_bytes,           -- BIGINT: as in `queues`
       avg_bytes,           -- BIGINT: as in `queues`
       transmit_bytes,      -- BIGINT: as in `queues`
       dropped_packets,     -- BIGINT: as in `queues`
       ecn_marked_packets,  -- BIGINT: as in `queues`
       quality              -- USMALLINT: as in `queues`
FROM believable_windows('queues', -9223372036854775808, 9223372036854775807);
