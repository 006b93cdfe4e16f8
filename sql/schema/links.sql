-- Which host is attached to which switch port. A row holds from its time on, until a later row of the same device, port,
-- host and interface replaces it: queries/links.sql has the current links.
CREATE TABLE links (
    batch     VARCHAR NOT NULL,  -- the collection that it came from
    ts_ns     BIGINT NOT NULL,   -- when it was reported, our clock
    host      VARCHAR NOT NULL,
    interface VARCHAR NOT NULL,  -- of the host
    rack      VARCHAR NOT NULL,
    link_bps  BIGINT,
    device    VARCHAR NOT NULL,
    port      VARCHAR NOT NULL,
    queue     VARCHAR NOT NULL,  -- '' for all queues of the port
    origin    VARCHAR NOT NULL,  -- configuration or lldp
    present   BOOLEAN NOT NULL   -- false: the neighbour was removed
);
