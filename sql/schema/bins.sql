-- Traffic of one interface in one direction in one bin. Bins without a packet have no row,
-- unless packets were lost in them (quality drops).
CREATE TABLE bins (
    recording_id         VARCHAR NOT NULL,
    host                 VARCHAR NOT NULL,
    rack                 VARCHAR NOT NULL,
    interface            VARCHAR NOT NULL,
    direction            VARCHAR NOT NULL,
    clock_epoch          USMALLINT NOT NULL, -- clock epoch: 0, plus one after each step of the clock
    ts_ns                BIGINT NOT NULL,    -- start of the bin, a multiple of the recording's bin_ns
    bytes                BIGINT NOT NULL,    -- link layer without FCS
    wire_bytes           BIGINT NOT NULL,    -- Ethernet: max(bytes, 60) + 24 a frame; for switch ports the bytes
    packets              UINTEGER NOT NULL,  -- 0 in bins of switch ports (backend otlp), which count only bytes
    ce_packets           UINTEGER NOT NULL,  -- with the IP ECN mark CE (congestion experienced)
    retransmits          UINTEGER,           -- TCP segments with a repeated sequence number; a lower bound; NULL: not counted (by an older --backend ebpf)
    quality              USMALLINT NOT NULL, -- bit set, see quality.sql
    cnp_packets          UINTEGER,           -- RoCEv2 congestion notifications; NULL: written by a version of mburst that did not count them
    pause_frames         UINTEGER,           -- pause frames (802.3x, PFC) that ask the other end to stop; NULL: as for cnp_packets, or not counted (--backend ebpf)
    resume_frames        UINTEGER,           -- pause frames with all times 0, which end a pause; NULL: as for pause_frames
    pause_quanta         BIGINT,             -- requested pause time in units of 512 bit times: the longest time of each frame; an upper bound, as frames replace each other
    pause_classes        USMALLINT           -- bit i: priority class i was asked to stop; 802.3x: all eight; NULL: as for pause_frames
);
