-- When the newest row of each kind of data is of: from the newest of all, `--since 10m` counts back.
CREATE VIEW newest AS
SELECT table_name,  -- VARCHAR: `bins`, `probes` or `queues`
       ts_ns        -- BIGINT: of its newest row
FROM (SELECT 'bins' AS table_name, max(ts_ns) AS ts_ns FROM bins
      UNION ALL SELECT 'probes', max(tx_ns) FROM probes
      UNION ALL SELECT 'queues', max(ts_ns) FROM queues)
WHERE ts_ns IS NOT NULL;
