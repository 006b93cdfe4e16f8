-- A window of a switch queue, as reported by its device.
CREATE TABLE queues (
    batch              VARCHAR NOT NULL,  -- the import or subscription that it came from
    device             VARCHAR NOT NULL,
    port               VARCHAR NOT NULL,
    queue              VARCHAR NOT NULL,
    window_start_ns    BIGINT NOT NULL,
    ts_ns              BIGINT NOT NULL,   -- end of the window, device clock
    receive_ns         BIGINT,            -- our clock
    max_bytes          BIGINT,
    avg_bytes          BIGINT,
    transmit_bytes     BIGINT,
    dropped_packets    BIGINT,
    ecn_marked_packets BIGINT,
    semantics          VARCHAR NOT NULL,  -- gauge, max-since-last, periodic-max, sliding-max, event
    quality            USMALLINT NOT NULL
);
