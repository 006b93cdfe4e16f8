-- A recording of one interface and direction. The port directions of one capture share `capture_id`.
CREATE TABLE recordings (
    recording_id         VARCHAR NOT NULL,   -- identifies this row; bins and sources carry it
    capture_id           VARCHAR NOT NULL,   -- identifies the call of `mburst record`
    host                 VARCHAR NOT NULL,
    rack                 VARCHAR NOT NULL,
    interface            VARCHAR NOT NULL,
    direction            VARCHAR NOT NULL,   -- in, out, or mirror where a capture has no side
    link_bps             BIGINT,             -- bits a second of one direction; NULL when nobody said
    bin_ns               BIGINT NOT NULL,
    source_bin_ns        BIGINT NOT NULL,
    backend              VARCHAR NOT NULL,
    input                VARCHAR NOT NULL,   -- the files or the interface, as named
    filter               VARCHAR NOT NULL,
    snaplen              BIGINT NOT NULL,    -- 0: whole frames
    clock                VARCHAR NOT NULL,   -- what stamped the packets, and how finely
    offloads             VARCHAR NOT NULL,   -- what is known of merged frames: '', or a sentence
    notes                VARCHAR NOT NULL,   -- what was inferred and what went wrong, one sentence a line
    start_ns             BIGINT,             -- first packet; NULL when there was none
    end_ns               BIGINT,             -- last packet; of what is not complete, the end of its last bin
    clock_epochs         BIGINT NOT NULL,    -- 1, and one more for each step of the clock
    packets              BIGINT NOT NULL,    -- in bins
    bytes                BIGINT NOT NULL,    -- in bins: link layer without FCS
    wire_bytes           BIGINT NOT NULL,    -- in bins: with FCS, preamble and gap
    unattributed_packets BIGINT NOT NULL,    -- in bins, but with no sender in the captured bytes
    unattributed_bytes   BIGINT NOT NULL,
    dropped              BIGINT NOT NULL,    -- packets lost before they were seen
    late                 BIGINT NOT NULL,    -- packets seen, but too far out of order for any bin
    late_bytes           BIGINT NOT NULL,
    unparsed             BIGINT NOT NULL,    -- packets counted by length alone
    quality              BIGINT NOT NULL,    -- bit set over the whole recording, see quality.sql
    version              VARCHAR NOT NULL,   -- of mburst
    complete             BOOLEAN NOT NULL,   -- false while it runs, and for ever where it did not come to its end
    written_ns           BIGINT NOT NULL,    -- the last row written counts
    writer_id            VARCHAR NOT NULL,   -- names the segments that this call of `mburst record` wrote
    counted_segments     BIGINT,             -- of bins that the totals in this row include; NULL: all of them
    begun_ns             BIGINT NOT NULL,    -- when the recorder began to count, by its clock
    ended                VARCHAR NOT NULL,   -- '' while it runs; finished, stopped, interrupted, failed, killed
    boot_id              VARCHAR,            -- names the time since the host was started; '': hidden; NULL: not from an interface
    interface_id         VARCHAR,            -- network namespace and number of the interface; NULL: likewise
    begun_packets        BIGINT,             -- the interface's counter of this direction at begun_ns; NULL: not known
    begun_bytes          BIGINT,             -- likewise; NULL where the driver counts bytes otherwise than `bytes` does
    counter_packets      BIGINT,             -- that counter when this row was written
    counter_bytes        BIGINT
);
