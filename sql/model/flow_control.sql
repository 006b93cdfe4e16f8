-- What asked senders to slow down (RoCEv2 congestion notifications) or to stop (pause frames, 802.3x and PFC), of each
-- recording with bins. What travels in one direction is about the traffic of the other one: `out` asks who sends to this
-- host, `in` asks this host. For a part of the time, flow_controls('counts', since_ns, until_ns) has the same sums.
CREATE VIEW flow_control AS
SELECT recording_id,   -- VARCHAR: see `recordings`
       rack,           -- VARCHAR: as in `recordings`
       host,           -- VARCHAR: as in `recordings`
       interface,      -- VARCHAR: as in `recordings`
       direction,      -- VARCHAR: as in `recordings`
       cnp_packets,    -- BIGINT: congestion notifications; NULL, as in the columns behind it: not counted
       pause_frames,   -- BIGINT: pause frames that ask the other end to stop
       resume_frames,  -- BIGINT: pause frames whose times are all 0: they end a pause
       pause_quanta,   -- BIGINT: time asked for, of each pause frame its longest, in 512 bit times
       pause_classes,  -- USMALLINT: bit i: priority class i was asked to stop; 802.3x asks all eight
       pause_ns(pause_quanta, link_bps) AS asked_ns  -- DOUBLE: the same time in ns, the most that the link stopped; NULL without its speed
FROM flow_controls('counts', -9223372036854775808, 9223372036854775807) JOIN recordings USING (recording_id);
