-- A second of a path, of a day whose probes were removed by compaction: the sums of all probes that were sent in it.
CREATE TABLE latency_steps (
    src          VARCHAR NOT NULL,  -- as in probes
    dst          VARCHAR NOT NULL,  -- as in probes
    protocol     VARCHAR NOT NULL,  -- as in probes
    measure      VARCHAR NOT NULL,  -- by which the path was measured on that day (as in latency); '' where nothing was
    ts_ns        BIGINT NOT NULL,   -- start of the second
    sent         BIGINT NOT NULL,   -- probes
    lost         BIGINT NOT NULL,   -- of these, that no answer came to
    measured     BIGINT NOT NULL,   -- of these, whose latency is known
    sum_ns       BIGINT,            -- of their latencies; NULL where none is known
    min_ns       BIGINT,            -- likewise, the least
    max_ns       BIGINT,            -- likewise, the largest
    histogram    VARCHAR NOT NULL   -- how many of them are in which bucket (latency_bucket in macros.sql): BUCKET:COUNT, with spaces between
);
