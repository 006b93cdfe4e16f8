-- The clocks of a recording host, once a second while it captures from an interface.
CREATE TABLE clock (
    host             VARCHAR NOT NULL,
    rack             VARCHAR NOT NULL,
    interface        VARCHAR NOT NULL,
    ts_ns            BIGINT NOT NULL,   -- system time (CLOCK_REALTIME)
    monotonic_raw_ns BIGINT NOT NULL,   -- CLOCK_MONOTONIC_RAW at that moment: never set or slewed
    tai_offset_ns    BIGINT NOT NULL,   -- CLOCK_TAI minus system time; 0 when the kernel has no value
    phc_offset_ns    BIGINT,            -- the interface's clock minus system time; NULL when it cannot be read
    uncertainty_ns   BIGINT NOT NULL,   -- the readings of this row are at most this far apart
    status           BIGINT NOT NULL,   -- STA_ bits of adjtimex(2)
    max_error_ns     BIGINT NOT NULL,   -- the kernel's estimate
    synchronized     BOOLEAN NOT NULL   -- synchronized by NTP or PTP
);
