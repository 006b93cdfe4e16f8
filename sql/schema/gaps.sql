-- A time in which a recorder did not count all packets of its interface. Packets of the reasons `dropped` and
-- `reader too slow` are also in recordings.dropped; those of other reasons are in no recording.
CREATE TABLE gaps (
    recording_id         VARCHAR NOT NULL,   -- the recording that ended or lost packets here
    host                 VARCHAR NOT NULL,
    rack                 VARCHAR NOT NULL,
    interface            VARCHAR NOT NULL,
    direction            VARCHAR NOT NULL,
    start_ns             BIGINT NOT NULL,    -- end of the last bin before it, or where the loss began
    end_ns               BIGINT,             -- when counting continued; NULL: not known to have continued
    reason               VARCHAR NOT NULL,   -- killed, power, disk full, failed, dropped, reader too slow; of switch ports: not sampled, sample without a bin, more than line rate, counter reset, store too slow
    packets              BIGINT,             -- missed packets, by the counters of the interface; NULL if these cannot show it
    bytes                BIGINT,             -- missed bytes; NULL if the counters of the interface cannot show it
    detail               VARCHAR NOT NULL    -- a sentence, or ''
);
