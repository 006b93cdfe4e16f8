-- Events of a gNMI subscription to a device, or of what it sends by OTLP: connections, gaps, refusals, drops.
CREATE TABLE gnmi_events (
    batch        VARCHAR NOT NULL,
    device       VARCHAR NOT NULL,
    subscription VARCHAR NOT NULL,  -- '' for all subscriptions of the device; otlp
    ts_ns        BIGINT NOT NULL,   -- our clock, like all times here
    until_ns     BIGINT,            -- end of an event that lasted
    event        VARCHAR NOT NULL,  -- connect, sync, disconnect, gap, refused, dropped, duplicates, reset, not-understood, not-mapped, deferred
    amount       BIGINT,            -- number of rows, values or messages, if it has one
    detail       VARCHAR NOT NULL   -- a sentence, or ''
);
