-- Contention: how many hosts of a rack receive bursts at once, for racks in which at least two hosts receive any.
-- include: bursts
--
-- Bursts of one host that overlap or touch count as one here, on any interface and in any recording (host_bursts of
-- bursts.sql). `share` is the share of these that overlap a burst of another host of the rack; `most` is the largest
-- number of hosts in a burst at once, first at `most_ns`; `contended_ns` is the time in which two or more were.
-- Settings are those of `bursts`.
CREATE OR REPLACE TEMP TABLE burst_edges AS
SELECT *, CAST(sum(change) OVER running AS BIGINT) AS bursting, lead(at_ns, 1, at_ns) OVER running AS until_ns
FROM (SELECT rack, host, start_ns AS at_ns, 1 AS change, end_ns FROM host_bursts
      UNION ALL SELECT rack, host, end_ns, -1, NULL FROM host_bursts)  -- at one moment, ends come before beginnings
WINDOW running AS (PARTITION BY rack ORDER BY at_ns, change, host ROWS UNBOUNDED PRECEDING);

CREATE OR REPLACE TEMP TABLE contended_bursts AS
SELECT rack, host, at_ns AS start_ns, end_ns,
       bursting > 1 OR coalesce(lead(at_ns) OVER following < end_ns, false) AS contended
FROM burst_edges WHERE change = 1
WINDOW following AS (PARTITION BY rack ORDER BY at_ns, host);

SELECT rack,                            -- VARCHAR: as in `recordings`
       count(DISTINCT host) AS hosts,   -- BIGINT: hosts that received bursts
       count(*) AS bursts,              -- BIGINT: bursts that they received
       count(*) FILTER (contended) / count(*) AS share,    -- DOUBLE: share of these that overlap one of another host
       any_value(most) AS most,                            -- BIGINT: largest number of hosts in a burst at once
       any_value(most_ns) AS most_ns,                      -- BIGINT: when that was first
       any_value(contended_ns) AS contended_ns             -- BIGINT: time in which two or more were in a burst
FROM contended_bursts JOIN (
    SELECT rack, max(bursting) AS most, arg_max(at_ns, {bursting: bursting, earlier: -at_ns}) AS most_ns,
           CAST(coalesce(sum(until_ns - at_ns) FILTER (bursting > 1), 0) AS BIGINT) AS contended_ns
    FROM burst_edges GROUP BY rack) USING (rack)
GROUP BY rack HAVING count(DISTINCT host) > 1 ORDER BY rack;
