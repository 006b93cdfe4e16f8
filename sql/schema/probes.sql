-- A probe and its answer. Timestamps that were not taken are NULL.
CREATE TABLE probes (
    batch        VARCHAR NOT NULL,  -- the import or the run of `mburst probe` that it came from
    seq          BIGINT NOT NULL,
    src          VARCHAR NOT NULL,
    dst          VARCHAR NOT NULL,
    protocol     VARCHAR NOT NULL,
    app_send_ns  BIGINT,            -- application, sender's clock
    tx_ns        BIGINT NOT NULL,   -- kernel or NIC, sender's clock
    remote_rx_ns BIGINT,            -- kernel or NIC, reflector's clock
    remote_tx_ns BIGINT,
    rx_ns        BIGINT,            -- kernel or NIC, sender's clock
    app_recv_ns  BIGINT,
    rtt_ns       BIGINT,            -- round trip, if nothing else was measured
    lost         BOOLEAN NOT NULL,
    stamp_kind   VARCHAR NOT NULL,  -- hw, sw, app, or '' when not known
    clock_error_ns BIGINT           -- error bound of the difference of the two clocks, if both ends report synchronized clocks
);
