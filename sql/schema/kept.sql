-- A time on a compacted day (`thinned`) for which every bin and its senders were kept. A time that reaches beyond
-- midnight has a row on each of the days.
CREATE TABLE kept (
    recording_id         VARCHAR NOT NULL,
    host                 VARCHAR NOT NULL,
    rack                 VARCHAR NOT NULL,
    interface            VARCHAR NOT NULL,
    direction            VARCHAR NOT NULL,
    clock_epoch          USMALLINT NOT NULL, -- as in bins
    start_ns             BIGINT NOT NULL,
    end_ns               BIGINT NOT NULL
);
