-- Which host hangs on which port. A row holds from its time on, until a later row of the same device, port, host and
-- interface says otherwise: queries/links.sql has what holds now.
CREATE TABLE links (
    batch     VARCHAR NOT NULL,  -- the collection that brought it
    ts_ns     BIGINT NOT NULL,   -- when it was told, our clock
    host      VARCHAR NOT NULL,
    interface VARCHAR NOT NULL,  -- of the host
    rack      VARCHAR NOT NULL,
    link_bps  BIGINT,
    device    VARCHAR NOT NULL,
    port      VARCHAR NOT NULL,
    queue     VARCHAR NOT NULL,  -- '' for all of the port's
    origin    VARCHAR NOT NULL,  -- configuration or lldp
    present   BOOLEAN NOT NULL   -- false: the neighbour has gone
);
