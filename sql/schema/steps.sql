-- A second of a recording on a day that was compacted (see `thinned`): the sums of all its bins, including those that
-- were kept. Seconds without a bin have no row.
CREATE TABLE steps (
    recording_id         VARCHAR NOT NULL,
    host                 VARCHAR NOT NULL,
    rack                 VARCHAR NOT NULL,
    interface            VARCHAR NOT NULL,
    direction            VARCHAR NOT NULL,
    clock_epoch          USMALLINT NOT NULL, -- as in bins
    ts_ns                BIGINT NOT NULL,    -- start of the second
    first_ns             BIGINT NOT NULL,    -- start of its first bin
    last_ns              BIGINT NOT NULL,    -- start of its last bin
    bins                 BIGINT NOT NULL,    -- bins with a row
    losing_bins          BIGINT NOT NULL,    -- of these, bins in which packets were dropped, or samples of a switch are missing (quality drops)
    bytes                BIGINT NOT NULL,    -- of all bins, like the columns below
    wire_bytes           BIGINT NOT NULL,
    packets              BIGINT NOT NULL,
    ce_packets           BIGINT NOT NULL,
    retransmits          BIGINT,             -- as in bins; NULL: not counted
    quality              USMALLINT NOT NULL, -- bits that are set in any bin
    cnp_packets          BIGINT,             -- as in bins; NULL: written by a version of mburst that did not count them
    pause_frames         BIGINT,             -- as in bins, like the three columns below; NULL: not counted (--backend ebpf)
    resume_frames        BIGINT,
    pause_quanta         BIGINT,
    pause_classes        USMALLINT,          -- bits that are set in any bin
    peak_bytes           BIGINT NOT NULL,    -- wire bytes of the fullest bin
    peak_1ms_bytes       BIGINT,             -- wire bytes of the fullest 1 ms that begins at a multiple of 1 ms; NULL if 1 ms is not a multiple of the width of bins
    peak_10ms_bytes      BIGINT,             -- the same for 10 ms
    peak_100ms_bytes     BIGINT              -- the same for 100 ms
);
