-- The tables of a fleet's results, for Trino's Hive connector (docs/fleet.md). Put your place of results for
-- s3://fleet/results, and your catalog for `hive`. `make docs` writes this file.

CREATE SCHEMA IF NOT EXISTS hive.mburst;

CREATE TABLE hive.mburst.bursts (
    host VARCHAR,
    interface VARCHAR,
    direction VARCHAR,
    start_ns BIGINT,
    end_ns BIGINT,
    duration_ns BIGINT,
    bytes BIGINT,
    packets BIGINT,
    mean_utilization DOUBLE,
    peak_utilization DOUBLE,
    sources BIGINT,
    fan_in BIGINT,
    effective_sources DOUBLE,
    onset_spread_ns BIGINT,
    pattern VARCHAR,
    top_sources ARRAY(ROW(source VARCHAR, bytes BIGINT, share DOUBLE)),
    quality ARRAY(VARCHAR),
    recording_id VARCHAR,
    clock_epoch INTEGER,
    bin_ns BIGINT,
    link_bps BIGINT,
    retransmits BIGINT,
    ce_packets BIGINT,
    retransmits_after BIGINT,
    ce_packets_after BIGINT,
    date VARCHAR,
    rack VARCHAR
) WITH (format = 'PARQUET', external_location = 's3://fleet/results/bursts', partitioned_by = ARRAY['date', 'rack']);
CALL hive.system.sync_partition_metadata('mburst', 'bursts', 'FULL');

CREATE TABLE hive.mburst.senders (
    host VARCHAR,
    recording_id VARCHAR,
    clock_epoch INTEGER,
    start_ns BIGINT,
    place INTEGER,
    source VARCHAR,
    members BIGINT,
    bytes BIGINT,
    share DOUBLE,
    onset_ns BIGINT,
    in_fan_in BOOLEAN,
    began BOOLEAN,
    date VARCHAR,
    rack VARCHAR
) WITH (format = 'PARQUET', external_location = 's3://fleet/results/senders', partitioned_by = ARRAY['date', 'rack']);
CALL hive.system.sync_partition_metadata('mburst', 'senders', 'FULL');

CREATE TABLE hive.mburst.hours (
    host VARCHAR,
    interface VARCHAR,
    direction VARCHAR,
    recording_id VARCHAR,
    clock_epoch INTEGER,
    hour_ns BIGINT,
    link_bps BIGINT,
    bin_ns BIGINT,
    recorded_ns BIGINT,
    bins BIGINT,
    hot_bins BIGINT,
    pairs BIGINT,
    hot_hot BIGINT,
    cold_hot BIGINT,
    hot_cold BIGINT,
    bytes BIGINT,
    wire_bytes BIGINT,
    packets BIGINT,
    retransmits BIGINT,
    ce_packets BIGINT,
    losing_bins BIGINT,
    quality INTEGER,
    bursts BIGINT,
    burst_bytes BIGINT,
    burst_packets BIGINT,
    burst_ns BIGINT,
    burst_retransmits BIGINT,
    burst_ce_packets BIGINT,
    retransmits_after BIGINT,
    ce_packets_after BIGINT,
    date VARCHAR,
    rack VARCHAR
) WITH (format = 'PARQUET', external_location = 's3://fleet/results/hours', partitioned_by = ARRAY['date', 'rack']);
CALL hive.system.sync_partition_metadata('mburst', 'hours', 'FULL');

CREATE TABLE hive.mburst.histograms (
    host VARCHAR,
    interface VARCHAR,
    direction VARCHAR,
    recording_id VARCHAR,
    clock_epoch INTEGER,
    hour_ns BIGINT,
    link_bps BIGINT,
    bin_ns BIGINT,
    measure VARCHAR,
    least BIGINT,
    n BIGINT,
    date VARCHAR,
    rack VARCHAR
) WITH (format = 'PARQUET', external_location = 's3://fleet/results/histograms', partitioned_by = ARRAY['date', 'rack']);
CALL hive.system.sync_partition_metadata('mburst', 'histograms', 'FULL');

CREATE TABLE hive.mburst.contention (
    hour_ns BIGINT,
    hosts INTEGER,
    bursting INTEGER,
    ns BIGINT,
    date VARCHAR,
    rack VARCHAR
) WITH (format = 'PARQUET', external_location = 's3://fleet/results/contention', partitioned_by = ARRAY['date', 'rack']);
CALL hive.system.sync_partition_metadata('mburst', 'contention', 'FULL');

CREATE TABLE hive.mburst.coverage (
    host VARCHAR,
    interface VARCHAR,
    direction VARCHAR,
    recording_id VARCHAR,
    clock_epoch INTEGER,
    link_bps BIGINT,
    bin_ns BIGINT,
    start_ns BIGINT,
    end_ns BIGINT,
    complete BOOLEAN,
    dropped BIGINT,
    late BIGINT,
    date VARCHAR,
    rack VARCHAR
) WITH (format = 'PARQUET', external_location = 's3://fleet/results/coverage', partitioned_by = ARRAY['date', 'rack']);
CALL hive.system.sync_partition_metadata('mburst', 'coverage', 'FULL');

CREATE TABLE hive.mburst.queue_drops (
    host VARCHAR,
    interface VARCHAR,
    device VARCHAR,
    port VARCHAR,
    queue VARCHAR,
    semantics VARCHAR,
    hour_ns BIGINT,
    windows BIGINT,
    lossy_windows BIGINT,
    drops BIGINT,
    burst_windows BIGINT,
    lossy_burst_windows BIGINT,
    burst_drops BIGINT,
    date VARCHAR,
    rack VARCHAR
) WITH (format = 'PARQUET', external_location = 's3://fleet/results/queue_drops', partitioned_by = ARRAY['date', 'rack']);
CALL hive.system.sync_partition_metadata('mburst', 'queue_drops', 'FULL');

CREATE TABLE hive.mburst.incomplete (
    host VARCHAR,
    day_ns BIGINT,
    behind_ns BIGINT,
    reason VARCHAR,
    date VARCHAR,
    rack VARCHAR
) WITH (format = 'PARQUET', external_location = 's3://fleet/results/incomplete', partitioned_by = ARRAY['date', 'rack']);
CALL hive.system.sync_partition_metadata('mburst', 'incomplete', 'FULL');

CREATE TABLE hive.mburst.verdicts (
    host VARCHAR,
    start_ns BIGINT,
    end_ns BIGINT,
    cause VARCHAR,
    summary VARCHAR,
    interface VARCHAR,
    direction VARCHAR,
    src VARCHAR,
    dst VARCHAR,
    protocol VARCHAR,
    paths BIGINT,
    bursts BIGINT,
    measure VARCHAR,
    n BIGINT,
    lost BIGINT,
    late BIGINT,
    p50_ns BIGINT,
    p99_ns BIGINT,
    p999_ns BIGINT,
    threshold_ns BIGINT,
    has_tail BOOLEAN,
    excess_ns BIGINT,
    cause_share DOUBLE,
    cause_share_low DOUBLE,
    cause_share_high DOUBLE,
    excess_share DOUBLE,
    excess_share_low DOUBLE,
    excess_share_high DOUBLE,
    relative_risk DOUBLE,
    relative_risk_low DOUBLE,
    relative_risk_high DOUBLE,
    date VARCHAR,
    rack VARCHAR
) WITH (format = 'PARQUET', external_location = 's3://fleet/results/verdicts', partitioned_by = ARRAY['date', 'rack']);
CALL hive.system.sync_partition_metadata('mburst', 'verdicts', 'FULL');

CREATE TABLE hive.mburst.port_bursts (
    host VARCHAR,
    interface VARCHAR,
    direction VARCHAR,
    start_ns BIGINT,
    end_ns BIGINT,
    duration_ns BIGINT,
    bytes BIGINT,
    packets BIGINT,
    mean_utilization DOUBLE,
    peak_utilization DOUBLE,
    sources BIGINT,
    fan_in BIGINT,
    effective_sources DOUBLE,
    onset_spread_ns BIGINT,
    pattern VARCHAR,
    top_sources ARRAY(ROW(source VARCHAR, bytes BIGINT, share DOUBLE)),
    quality ARRAY(VARCHAR),
    recording_id VARCHAR,
    clock_epoch INTEGER,
    bin_ns BIGINT,
    link_bps BIGINT,
    retransmits BIGINT,
    ce_packets BIGINT,
    retransmits_after BIGINT,
    ce_packets_after BIGINT,
    attached_host VARCHAR,
    attached_interface VARCHAR,
    date VARCHAR,
    rack VARCHAR
) WITH (format = 'PARQUET', external_location = 's3://fleet/results/port_bursts', partitioned_by = ARRAY['date', 'rack']);
CALL hive.system.sync_partition_metadata('mburst', 'port_bursts', 'FULL');

CREATE TABLE hive.mburst.port_hours (
    host VARCHAR,
    interface VARCHAR,
    direction VARCHAR,
    recording_id VARCHAR,
    clock_epoch INTEGER,
    hour_ns BIGINT,
    link_bps BIGINT,
    bin_ns BIGINT,
    recorded_ns BIGINT,
    bins BIGINT,
    hot_bins BIGINT,
    pairs BIGINT,
    hot_hot BIGINT,
    cold_hot BIGINT,
    hot_cold BIGINT,
    bytes BIGINT,
    wire_bytes BIGINT,
    packets BIGINT,
    retransmits BIGINT,
    ce_packets BIGINT,
    losing_bins BIGINT,
    quality INTEGER,
    bursts BIGINT,
    burst_bytes BIGINT,
    burst_packets BIGINT,
    burst_ns BIGINT,
    burst_retransmits BIGINT,
    burst_ce_packets BIGINT,
    retransmits_after BIGINT,
    ce_packets_after BIGINT,
    attached_host VARCHAR,
    attached_interface VARCHAR,
    date VARCHAR,
    rack VARCHAR
) WITH (format = 'PARQUET', external_location = 's3://fleet/results/port_hours', partitioned_by = ARRAY['date', 'rack']);
CALL hive.system.sync_partition_metadata('mburst', 'port_hours', 'FULL');

CREATE TABLE hive.mburst.port_histograms (
    host VARCHAR,
    interface VARCHAR,
    direction VARCHAR,
    recording_id VARCHAR,
    clock_epoch INTEGER,
    hour_ns BIGINT,
    link_bps BIGINT,
    bin_ns BIGINT,
    measure VARCHAR,
    least BIGINT,
    n BIGINT,
    attached_host VARCHAR,
    attached_interface VARCHAR,
    date VARCHAR,
    rack VARCHAR
) WITH (format = 'PARQUET', external_location = 's3://fleet/results/port_histograms', partitioned_by = ARRAY['date', 'rack']);
CALL hive.system.sync_partition_metadata('mburst', 'port_histograms', 'FULL');

CREATE TABLE hive.mburst.port_coverage (
    host VARCHAR,
    interface VARCHAR,
    direction VARCHAR,
    recording_id VARCHAR,
    clock_epoch INTEGER,
    link_bps BIGINT,
    bin_ns BIGINT,
    start_ns BIGINT,
    end_ns BIGINT,
    complete BOOLEAN,
    dropped BIGINT,
    late BIGINT,
    attached_host VARCHAR,
    attached_interface VARCHAR,
    date VARCHAR,
    rack VARCHAR
) WITH (format = 'PARQUET', external_location = 's3://fleet/results/port_coverage', partitioned_by = ARRAY['date', 'rack']);
CALL hive.system.sync_partition_metadata('mburst', 'port_coverage', 'FULL');
