-- Frames that asked senders to slow down (RoCEv2 congestion notifications) or to stop (pause frames, 802.3x and PFC),
-- for each recording with bins. Frames in one direction are about the traffic of the other one: `out` asks the senders
-- to this host, `in` asks this host. For a part of the time, flow_controls('counts', since_ns, until_ns) has the same
-- sums.
CREATE VIEW flow_control AS
SELECT recording_id,   -- VARCHAR: see `recordings`
       rack,           -- VARCHAR: as in `recordings`
       host,           -- VARCHAR: as in `recordings`
       interface,      -- VARCHAR: as in `recordings`
       direction,      -- VARCHAR: as in `recordings`
       cnp_packets,    -- BIGINT: congestion notifications; NULL, also in the columns below: not counted
       pause_frames,   -- BIGINT: pause frames that ask the other end to stop
       resume_frames,  -- BIGINT: pause frames with all times 0, which end a pause
       pause_quanta,   -- BIGINT: requested pause time in units of 512 bit times: the longest time of each pause frame
       pause_classes,  -- USMALLINT: bit i: priority class i was asked to stop; 802.3x asks all eight
       pause_ns(pause_quanta, link_bps) AS asked_ns  -- DOUBLE: pause_quanta in ns, the longest that the link can have stopped; NULL if its speed is not known
FROM flow_controls('counts', -9223372036854775808, 9223372036854775807) JOIN recordings USING (recording_id);
