-- The seconds that contain a burst, and the seconds before and after: for near_bins.sql and near_sources.sql. Reads the
-- tables that bursts.sql creates. These also have the bursts beside the span, so that a row belongs to the span in
-- which it lies. The bursts are those of hosts, or with the variable of_ports those of switch ports.
CREATE OR REPLACE TEMP TABLE near_seconds AS
SELECT DISTINCT recording_id, clock_epoch,
       unnest(range(bin_number(start_ns, 1000000000) - 1, bin_number(end_ns - 1, 1000000000) + 2)) AS second
FROM bursts SEMI JOIN (FROM lanes WHERE (backend = 'otlp') = getvariable('of_ports')) AS side USING (recording_id);
