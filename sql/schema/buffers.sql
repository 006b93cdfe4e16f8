-- Depth of a chip's buffer in a window, as reported by its device.
CREATE TABLE buffers (
    batch           VARCHAR NOT NULL,  -- the subscription that it came from
    device          VARCHAR NOT NULL,
    component       VARCHAR NOT NULL,  -- the chip
    resource        VARCHAR NOT NULL,  -- name of the memory
    window_start_ns BIGINT NOT NULL,
    ts_ns           BIGINT NOT NULL,   -- end of the window, device clock
    receive_ns      BIGINT,            -- our clock
    used_bytes      BIGINT,
    max_bytes       BIGINT,
    limit_bytes     BIGINT,
    semantics       VARCHAR NOT NULL,  -- of max_bytes, as in queues
    quality         USMALLINT NOT NULL
);
