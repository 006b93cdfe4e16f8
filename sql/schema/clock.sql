-- The clocks of a recording host, once a second while it captures from an interface.
CREATE TABLE clock (
    host             VARCHAR NOT NULL,
    rack             VARCHAR NOT NULL,
    interface        VARCHAR NOT NULL,
    ts_ns            BIGINT NOT NULL,   -- system time (CLOCK_REALTIME)
    monotonic_raw_ns BIGINT NOT NULL,   -- CLOCK_MONOTONIC_RAW at that moment: no one sets or slews it
    tai_offset_ns    BIGINT NOT NULL,   -- CLOCK_TAI minus system time; 0 when the kernel was never told
    phc_offset_ns    BIGINT,            -- the interface's clock minus system time; NULL when it cannot be read
    uncertainty_ns   BIGINT NOT NULL,   -- within which the readings of this row are of one moment
    status           BIGINT NOT NULL,   -- STA_ bits of adjtimex(2)
    max_error_ns     BIGINT NOT NULL,   -- as the kernel estimates it
    synchronized     BOOLEAN NOT NULL   -- kept in step by NTP or PTP
);
