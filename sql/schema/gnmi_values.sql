-- A value that a device sent under a path that has no column elsewhere.
CREATE TABLE gnmi_values (
    batch      VARCHAR NOT NULL,  -- the subscription that it came from
    device     VARCHAR NOT NULL,
    path       VARCHAR NOT NULL,  -- with its keys, such as /a/b[name=x]/c
    ts_ns      BIGINT NOT NULL,   -- device clock
    receive_ns BIGINT NOT NULL,   -- our clock
    value      VARCHAR NOT NULL,  -- exact, as text; bytes in hexadecimal
    kind       VARCHAR NOT NULL,  -- int, uint, double, float, decimal, bool, string, ascii, bytes, list, json, none, …
    duplicates BIGINT NOT NULL,   -- values that the device left out before this one
    deleted    BOOLEAN NOT NULL   -- the device deleted the path
);
