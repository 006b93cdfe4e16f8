-- What one sender sent in one bin of the recording's source_bin_ns.
CREATE TABLE sources (
    recording_id         VARCHAR NOT NULL,
    host                 VARCHAR NOT NULL,
    rack                 VARCHAR NOT NULL,
    interface            VARCHAR NOT NULL,
    direction            VARCHAR NOT NULL,
    clock_epoch          USMALLINT NOT NULL,
    ts_ns                BIGINT NOT NULL,    -- start of the bin, a multiple of the recording's source_bin_ns
    source               VARCHAR NOT NULL,   -- IP address, MAC where there is no IP, or 'other'
    bytes                BIGINT NOT NULL,    -- link layer without FCS
    packets              UINTEGER NOT NULL,
    flows                UINTEGER NOT NULL,  -- distinct (addresses, protocol, ports)
    members              UINTEGER NOT NULL,  -- 1, or how many senders 'other' counts
    first_ns             BIGINT NOT NULL,    -- first and last packet in the bin; for 'other' that stands for senders away from busy bins: the bin's first and last ns
    last_ns              BIGINT NOT NULL,
    source_port          USMALLINT,          -- the port that more than half of its flows come from; 0 if there is none
    destination_port     USMALLINT,          -- the port that more than half of its flows go to; 0 if there is none
    cnp_packets          UINTEGER            -- congestion notifications that it sent; NULL: written by a version of mburst that did not count them
);
