-- A second of a path, on a day whose probes were removed by compaction: the sums of all probes that were sent in it.
CREATE TABLE latency_steps (
    src          VARCHAR NOT NULL,  -- as in probes
    dst          VARCHAR NOT NULL,  -- as in probes
    protocol     VARCHAR NOT NULL,  -- as in probes
    measure      VARCHAR NOT NULL,  -- the measure of the path on that day (as in latency); '' if nothing was measured
    ts_ns        BIGINT NOT NULL,   -- start of the second
    sent         BIGINT NOT NULL,   -- probes
    lost         BIGINT NOT NULL,   -- of these, probes without an answer
    measured     BIGINT NOT NULL,   -- of these, probes with a known latency
    sum_ns       BIGINT,            -- sum of their latencies; NULL if none is known
    min_ns       BIGINT,            -- least of their latencies; NULL if none is known
    max_ns       BIGINT,            -- largest of their latencies; NULL if none is known
    histogram    VARCHAR NOT NULL   -- number of latencies in each bucket (latency_bucket in macros.sql): BUCKET:COUNT, separated by spaces
);
