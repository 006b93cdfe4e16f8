-- What an address or a prefix is called, by one import of a source of names (`mburst names`). What holds when is in the
-- view `names`: of a CSV file the rows of its newest import, of other sources each import's rows until the next.
CREATE TABLE names (
    batch       VARCHAR NOT NULL,  -- the import that it came from
    origin      VARCHAR NOT NULL,  -- the source of names: the name of a file, hosts, dns or recorded
    kind        VARCHAR NOT NULL,  -- csv, hosts, dns, kubernetes, consul or recorded
    imported_ns BIGINT NOT NULL,   -- when it was imported
    prefix      VARCHAR NOT NULL,  -- address, network in CIDR notation or MAC address; '': the import names nothing
    name        VARCHAR NOT NULL,  -- '' where the source has none
    service     VARCHAR NOT NULL,  -- likewise
    located     VARCHAR NOT NULL,  -- likewise: the rack
    owner       VARCHAR NOT NULL,  -- likewise
    from_ns     BIGINT,            -- it holds from this time on; NULL: from the beginning
    until_ns    BIGINT             -- and no longer from this time on; NULL: to the end
);
