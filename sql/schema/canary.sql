-- Detection of a burst of known size and length that `mburst canary` sent: a row for each burst, recording and
-- definition of a burst. Reading a run again adds rows; those of the newest reading count.
CREATE TABLE canary (
    batch            VARCHAR NOT NULL,   -- the run of `mburst canary` that sent it
    number           BIGINT NOT NULL,    -- number of the burst in its run, from 1
    read_ns          BIGINT NOT NULL,    -- when the recording was read
    source           VARCHAR NOT NULL,   -- the sender, as in `sources`
    size_bytes       BIGINT NOT NULL,    -- requested: link layer without FCS
    length_ns        BIGINT NOT NULL,    -- requested; 0: back to back
    sent_ns          BIGINT NOT NULL,    -- first packet, by the sender's clock
    sent_for_ns      BIGINT NOT NULL,    -- from the first packet to the last
    sent_error_ns    BIGINT NOT NULL,    -- error bound of these two
    sent_stamps      VARCHAR NOT NULL,   -- stamped by: sw (kernel) or app
    packets          BIGINT NOT NULL,    -- sent
    bytes            BIGINT NOT NULL,    -- sent; link layer without FCS
    recording_id     VARCHAR NOT NULL,
    host             VARCHAR NOT NULL,
    rack             VARCHAR NOT NULL,
    interface        VARCHAR NOT NULL,
    direction        VARCHAR NOT NULL,
    clock_epoch      USMALLINT NOT NULL, -- as in bins
    start_ns         BIGINT NOT NULL,    -- expected start in the recording: sent_ns plus offset_ns and the drift since
    end_ns           BIGINT NOT NULL,    -- expected end in the recording: not before the link can have carried the burst
    offset_ns        BIGINT NOT NULL,    -- recorder's clock minus sender's, with the path delay, in the middle of the run
    offset_error_ns  BIGINT NOT NULL,    -- 95 % error bound of offset_ns at this burst
    drift_ppb        BIGINT NOT NULL,    -- drift of the recorder's clock against the sender's
    bin_ns           BIGINT NOT NULL,    -- of the burst definition, as in `mburst bursts`
    link_bps         BIGINT NOT NULL,    -- likewise
    threshold_ppb    BIGINT NOT NULL,    -- of the burst definition; share of line rate in billionths
    release_ppb      BIGINT NOT NULL,    -- likewise
    join_ns          BIGINT NOT NULL,    -- of the burst definition
    min_duration_ns  BIGINT NOT NULL,    -- likewise
    stamps           VARCHAR NOT NULL,   -- stamps of the bins in which the bursts of the run lie: hw, sw, ring, file-µs, or several of them
    quality          USMALLINT NOT NULL, -- bit set over the bins in its time, see quality.sql
    seen_packets     BIGINT,             -- packets of the sender in that time; NULL if source bins are too wide
    seen_bytes       BIGINT,             -- bytes of the sender in that time; NULL if source bins are too wide
    excluded         VARCHAR NOT NULL,   -- why it does not count: held up, not recorded, lost, joined, hidden, or ''
    detected         BOOLEAN NOT NULL,
    found_start_ns   BIGINT,             -- start of the burst that it was detected as
    found_end_ns     BIGINT,
    found_bytes      BIGINT              -- bytes of the sender in that burst
);
