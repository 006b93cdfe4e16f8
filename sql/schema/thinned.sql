-- A day of a recording from which bins and senders were removed. What stays are those around whatever may be a burst by
-- the loosest definition, and one-second sums of all bins (`steps`). A later row of the same recording and day replaces
-- an earlier one.
CREATE TABLE thinned (
    recording_id         VARCHAR NOT NULL,
    host                 VARCHAR NOT NULL,
    rack                 VARCHAR NOT NULL,
    interface            VARCHAR NOT NULL,
    direction            VARCHAR NOT NULL,
    start_ns             BIGINT NOT NULL,    -- start of the day, UTC
    end_ns               BIGINT NOT NULL,
    threshold_ppb        BIGINT,             -- share of line rate, in 10^-9, from which on a bin and the time around it are kept; NULL: no bin is kept
    link_bps             BIGINT,             -- line rate that threshold_ppb is a share of
    around_ns            BIGINT NOT NULL,    -- time that is kept before and after such a bin
    written_ns           BIGINT NOT NULL     -- time of this row
);
