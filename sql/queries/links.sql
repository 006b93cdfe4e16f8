-- Which host is attached to which switch port now. From LLDP and from the configuration of `mburst collect`; where both name a
-- link, the configuration's row counts.
SELECT device, port, queue, host, interface, rack, link_bps, origin, utc(ts_ns) AS since_utc
FROM links
QUALIFY row_number() OVER (PARTITION BY device, port, host, interface, origin ORDER BY ts_ns DESC) = 1 AND present
    AND (origin = 'configuration' OR count(*) FILTER (origin = 'configuration') OVER (PARTITION BY device, port, host) = 0)
ORDER BY device, port, host, interface;
