-- Senders by bytes, for each interface and direction.
-- On days that were compacted (`thinned`), senders in the time that was kept (`kept`).
-- `other` stands for senders beyond --max-sources in some bins; `members` is the most that it counted at once.
SELECT host, interface, direction, source, sum(bytes) AS bytes, sum(packets) AS packets,
       sum(bytes) / sum(sum(bytes)) OVER (PARTITION BY host, interface, direction) AS share,
       max(members) AS members, min(first_ns) AS first_ns, max(last_ns) AS last_ns
FROM sources
GROUP BY host, interface, direction, source
ORDER BY host, interface, direction, bytes DESC, source;
