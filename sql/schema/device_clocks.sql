-- Offset between a device's clock and ours, over some seconds. It is an estimate, and is never applied to any other
-- row. A lag is the time from the device's stamp to our receipt: the path delay minus the device's offset.
CREATE TABLE device_clocks (
    batch          VARCHAR NOT NULL,
    device         VARCHAR NOT NULL,
    ts_ns          BIGINT NOT NULL,   -- our clock, end of the span
    messages       BIGINT NOT NULL,
    least_lag_ns   BIGINT NOT NULL,
    largest_lag_ns BIGINT NOT NULL,
    rtt_ns         BIGINT,            -- shortest round trip of a call; NULL when there was none
    offset_ns      BIGINT NOT NULL,   -- device clock minus ours: half the round trip minus the least lag
    uncertainty_ns BIGINT             -- half the round trip; late stamping by the device adds an unknown error
);
