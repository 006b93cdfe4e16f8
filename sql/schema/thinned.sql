-- A day of a recording of which bins and senders were removed: kept are those around whatever may be a burst by the loosest
-- definition, and one-second sums of all bins (`steps`). A later row of the same recording and day replaces an earlier one.
CREATE TABLE thinned (
    recording_id         VARCHAR NOT NULL,
    host                 VARCHAR NOT NULL,
    rack                 VARCHAR NOT NULL,
    interface            VARCHAR NOT NULL,
    direction            VARCHAR NOT NULL,
    start_ns             BIGINT NOT NULL,    -- of the day, UTC
    end_ns               BIGINT NOT NULL,
    threshold_ppb        BIGINT,             -- share of line rate, in 10^-9, from which on bins and what is around them are kept; NULL: none is
    link_bps             BIGINT,             -- line rate that it is a share of
    around_ns            BIGINT NOT NULL,    -- that is kept before and after
    written_ns           BIGINT NOT NULL     -- time of this row
);
