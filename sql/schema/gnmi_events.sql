-- Events of a gNMI subscription to a device, or of what it sends by OTLP: connections, gaps, refusals, drops.
CREATE TABLE gnmi_events (
    batch        VARCHAR NOT NULL,
    device       VARCHAR NOT NULL,
    subscription VARCHAR NOT NULL,  -- '' for all of the device's; otlp
    ts_ns        BIGINT NOT NULL,   -- our clock, as all times here
    until_ns     BIGINT,            -- where it lasted
    event        VARCHAR NOT NULL,  -- connect, sync, disconnect, gap, refused, dropped, duplicates, reset, not-understood, not-mapped, deferred
    amount       BIGINT,            -- of rows, values or messages, where it has one
    detail       VARCHAR NOT NULL   -- a sentence, or ''
);
