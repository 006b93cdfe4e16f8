-- The seconds in which a burst lies, and those before and behind: for near_bins.sql and near_sources.sql. Asked of the tables
-- that bursts.sql left, which have the bursts beside the span too, so that a row belongs to the span it lies in. Bursts are those
-- of hosts, or with the variable of_ports those of switch ports.
CREATE OR REPLACE TEMP TABLE near_seconds AS
SELECT DISTINCT recording_id, clock_epoch,
       unnest(range(bin_number(start_ns, 1000000000) - 1, bin_number(end_ns - 1, 1000000000) + 2)) AS second
FROM bursts SEMI JOIN (FROM lanes WHERE (backend = 'otlp') = getvariable('of_ports')) AS side USING (recording_id);
