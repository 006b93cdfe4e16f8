-- Which host is attached to which switch port now, from LLDP and from the configuration of `mburst collect`. If both
-- name a link, the row of the configuration counts.
SELECT device, port, queue, host, interface, rack, link_bps, origin, utc(ts_ns) AS since_utc
FROM links_at('links', 9223372036854775807)
ORDER BY device, port, host, interface;
