-- How full a chip's buffer was in a window, as its device told it.
CREATE TABLE buffers (
    batch           VARCHAR NOT NULL,  -- the subscription that brought it
    device          VARCHAR NOT NULL,
    component       VARCHAR NOT NULL,  -- the chip
    resource        VARCHAR NOT NULL,  -- which of its memories
    window_start_ns BIGINT NOT NULL,
    ts_ns           BIGINT NOT NULL,   -- end of the window, device clock
    receive_ns      BIGINT,            -- our clock
    used_bytes      BIGINT,
    max_bytes       BIGINT,
    limit_bytes     BIGINT,
    semantics       VARCHAR NOT NULL,  -- of max_bytes, as in queues
    quality         USMALLINT NOT NULL
);
