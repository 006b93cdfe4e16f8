-- The time of the newest row of each kind of data: `--since 10m` counts back from the newest of all.
CREATE VIEW newest AS
SELECT table_name,  -- VARCHAR: `bins`, `probes` or `queues`
       ts_ns        -- BIGINT: time of its newest row
FROM (SELECT 'bins' AS table_name, max(ts_ns) AS ts_ns FROM bins
      UNION ALL SELECT 'probes', max(tx_ns) FROM probes
      UNION ALL SELECT 'queues', max(ts_ns) FROM queues)
WHERE ts_ns IS NOT NULL;
