-- A time in which a recorder did not count what its interface carried, or not all of it. Packets of `dropped` and
-- `reader too slow` are in recordings.dropped, too; those of other reasons are in no recording.
CREATE TABLE gaps (
    recording_id         VARCHAR NOT NULL,   -- the recording that ended or lost packets here
    host                 VARCHAR NOT NULL,
    rack                 VARCHAR NOT NULL,
    interface            VARCHAR NOT NULL,
    direction            VARCHAR NOT NULL,
    start_ns             BIGINT NOT NULL,    -- end of the last bin before it, or where the loss began
    end_ns               BIGINT,             -- when counting went on; NULL: not known to have gone on
    reason               VARCHAR NOT NULL,   -- killed, power, disk full, failed, dropped, reader too slow
    packets              BIGINT,             -- that were missed, by the interface's counters; NULL where they cannot tell
    bytes                BIGINT,             -- likewise
    detail               VARCHAR NOT NULL    -- a sentence, or ''
);
