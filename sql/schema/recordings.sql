-- A recording of one interface and direction. The port directions of one capture share `capture_id`.
CREATE TABLE recordings (
    recording_id         VARCHAR NOT NULL,   -- identifies this row; bins and sources carry it
    capture_id           VARCHAR NOT NULL,   -- identifies the call of `mburst record`
    host                 VARCHAR NOT NULL,
    rack                 VARCHAR NOT NULL,
    interface            VARCHAR NOT NULL,
    direction            VARCHAR NOT NULL,   -- in, out, or mirror where a capture has no direction
    link_bps             BIGINT,             -- bits per second of one direction; NULL if not known
    bin_ns               BIGINT NOT NULL,
    source_bin_ns        BIGINT NOT NULL,
    backend              VARCHAR NOT NULL,
    input                VARCHAR NOT NULL,   -- the files or the interface, as named; for switch ports, where their samples are received
    filter               VARCHAR NOT NULL,
    snaplen              BIGINT NOT NULL,    -- 0: whole frames
    clock                VARCHAR NOT NULL,   -- what stamped the packets, and at which resolution
    offloads             VARCHAR NOT NULL,   -- offloads that merge frames: '', or a sentence
    notes                VARCHAR NOT NULL,   -- inferred values and faults, one sentence a line
    start_ns             BIGINT,             -- first packet (--split-merged: start of its transmission); switch ports: first sample; NULL if there was none
    end_ns               BIGINT,             -- last packet or sample; of a recording that is not complete, the end of its last bin
    clock_epochs         BIGINT NOT NULL,    -- 1, plus one for each step of the clock
    packets              BIGINT NOT NULL,    -- in bins
    bytes                BIGINT NOT NULL,    -- in bins: link layer without FCS
    wire_bytes           BIGINT NOT NULL,    -- in bins: with FCS, preamble and gap
    unattributed_packets BIGINT NOT NULL,    -- in bins, but with no sender in the captured bytes
    unattributed_bytes   BIGINT NOT NULL,
    dropped              BIGINT NOT NULL,    -- packets dropped before they were captured, in both directions, and at all interfaces of its files
    late                 BIGINT NOT NULL,    -- packets in no bin: outside the reorder window, or the years 1970 to 2100
    late_bytes           BIGINT NOT NULL,
    unparsed             BIGINT,             -- packets counted by length alone; NULL: not counted
    quality              BIGINT NOT NULL,    -- bit set over the whole recording, see quality.sql
    version              VARCHAR NOT NULL,   -- of mburst
    complete             BOOLEAN NOT NULL,   -- false while it runs, and where it did not end normally
    written_ns           BIGINT NOT NULL,    -- time of this row; the last row of a recording counts
    writer_id            VARCHAR NOT NULL,   -- names the segments that this call of `mburst record` wrote
    counted_segments     BIGINT,             -- segments of bins that the totals in this row include; NULL: all of them
    begun_ns             BIGINT NOT NULL,    -- when the recorder began to count, by its own clock
    ended                VARCHAR NOT NULL,   -- '' while it runs; finished, stopped, interrupted, failed, killed
    boot_id              VARCHAR,            -- boot of the host; '': hidden; NULL: not from an interface
    interface_id         VARCHAR,            -- network namespace and number of the interface; NULL: not from an interface
    begun_packets        BIGINT,             -- the interface's counter of this direction at begun_ns; NULL: not known
    begun_bytes          BIGINT,             -- the interface's byte counter of this direction at begun_ns; NULL also if the driver counts bytes differently from `bytes`
    counter_packets      BIGINT,             -- that counter when this row was written
    counter_bytes        BIGINT,
    sources_above_ppb    BIGINT              -- senders are kept near bins of this share of line rate; elsewhere they are summed up as 'other'; NULL: kept everywhere
);
