-- Counters of a switch port in a window, as reported by its device. Values that were not reported are NULL.
CREATE TABLE ports (
    batch            VARCHAR NOT NULL,  -- the subscription that it came from
    device           VARCHAR NOT NULL,
    port             VARCHAR NOT NULL,
    window_start_ns  BIGINT NOT NULL,
    ts_ns            BIGINT NOT NULL,   -- end of the window, device clock
    receive_ns       BIGINT,            -- our clock
    in_bytes         BIGINT,            -- in the window, like all counts here
    out_bytes        BIGINT,
    in_discards      BIGINT,
    out_discards     BIGINT,
    in_pause_frames  BIGINT,            -- IEEE 802.3x and, where the device adds them, PFC
    out_pause_frames BIGINT,
    link_bps         BIGINT,            -- speed of the port at the end of the window
    quality          USMALLINT NOT NULL
);
