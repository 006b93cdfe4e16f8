-- The name of an address or a prefix, from one import of a source of names (`mburst names`). The view `names` shows
-- which rows hold when: for a CSV file the rows of its newest import, for other sources the rows of each import until
-- the next.
CREATE TABLE names (
    batch       VARCHAR NOT NULL,  -- the import that it came from
    origin      VARCHAR NOT NULL,  -- the source of names: the name of a file, hosts, dns or recorded
    kind        VARCHAR NOT NULL,  -- csv, hosts, dns, kubernetes, consul or recorded
    imported_ns BIGINT NOT NULL,   -- when it was imported
    prefix      VARCHAR NOT NULL,  -- address, network in CIDR notation or MAC address; '': the import names nothing
    name        VARCHAR NOT NULL,  -- '' if the source has none
    service     VARCHAR NOT NULL,  -- likewise
    located     VARCHAR NOT NULL,  -- the rack; '' if the source has none
    owner       VARCHAR NOT NULL,  -- '' if the source has none
    from_ns     BIGINT,            -- it holds from this time on; NULL: from the beginning
    until_ns    BIGINT             -- it no longer holds from this time on; NULL: to the end
);
