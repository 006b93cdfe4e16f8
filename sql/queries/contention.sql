-- Contention: how many hosts of a rack receive bursts at once, for racks in which at least two hosts receive any.
-- include: bursts
--
-- Bursts of one host that overlap or touch count as one here, on any interface and in any recording, each from its first
-- to its last recorded time. They are at once only in the time that was recorded: bins can be missing within a burst.
-- `share` is the share of these bursts that overlap a burst of another host of the rack; `most` is the largest number of
-- hosts in a burst at once, first at `most_ns`; `contended_ns` is the time in which two or more were. Settings are those
-- of `bursts`.
CREATE OR REPLACE TEMP TABLE recorded_bursts AS FROM received_parts('bursts', 'recorded');

CREATE OR REPLACE TEMP VIEW whole_bursts AS
SELECT rack, receiver, min(start_ns) AS start_ns, max(end_ns) AS end_ns FROM recorded_bursts GROUP BY burst, rack, receiver;

CREATE OR REPLACE TEMP TABLE contending AS FROM received_times('recorded_bursts');

CREATE OR REPLACE TEMP TABLE burst_edges AS
SELECT *, CAST(sum(change) OVER running AS BIGINT) AS bursting, lead(at_ns, 1, at_ns) OVER running AS until_ns
FROM (SELECT rack, host, start_ns AS at_ns, 1 AS change, end_ns FROM contending
      UNION ALL SELECT rack, host, end_ns, -1, NULL FROM contending)  -- at one moment, ends come before beginnings
WINDOW running AS (PARTITION BY rack ORDER BY at_ns, change, host ROWS UNBOUNDED PRECEDING);

CREATE OR REPLACE TEMP TABLE contended_times AS
SELECT rack, host, at_ns AS start_ns, end_ns,
       bursting > 1 OR coalesce(lead(at_ns) OVER following < end_ns, false) AS contended
FROM burst_edges WHERE change = 1
WINDOW following AS (PARTITION BY rack ORDER BY at_ns, host);

CREATE OR REPLACE TEMP TABLE contended_bursts AS
SELECT rack, host, whole.start_ns, whole.end_ns, bool_or(contended) AS contended
FROM contended_times AS parts ASOF JOIN received_times('whole_bursts') AS whole USING (rack, host, start_ns)
GROUP BY ALL;

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
