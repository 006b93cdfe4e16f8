-- Usable windows of switch queues, each once however many collections reported it. Where windows of two collections overlap, or
-- of two widths in one, what was counted stands in those of one, and the others have NULL: what that one missed may be missing.
CREATE VIEW queue_windows AS
SELECT batch,               -- VARCHAR: the first batch that reported it
       device,              -- VARCHAR: as in `queues`
       port,                -- VARCHAR: as in `queues`
       queue,               -- VARCHAR: as in `queues`
       semantics,           -- VARCHAR: as in `queues`
       window_start_ns,     -- BIGINT: as in `queues`
       ts_ns,               -- BIGINT: as in `queues`
       depth_bytes,         -- BIGINT: `max_bytes`, or `avg_bytes` if the device reported no maximum
       max_bytes,           -- BIGINT: as in `queues`
       avg_bytes,           -- BIGINT: as in `queues`
       transmit_bytes,      -- BIGINT: sent in the window; NULL also where another window has them
       dropped_packets,     -- BIGINT: in the window; NULL also where another window has them
       ecn_marked_packets,  -- BIGINT: in the window, with ECN CE; NULL also where another window has them
       quality              -- USMALLINT: as in `queues`
FROM believable_windows('queues', -9223372036854775808, 9223372036854775807);
