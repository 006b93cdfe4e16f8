-- When each direction of each interface was recorded: intervals without overlaps, and the packets lost in them. Each
-- direction of a capture has all packets that the capture dropped: do not sum `dropped` over directions or interfaces.
CREATE VIEW coverage AS
WITH reached AS (
    SELECT *, max(end_ns) OVER earlier AS reached_ns FROM recorded
    WINDOW earlier AS (PARTITION BY rack, host, interface, direction ORDER BY start_ns, end_ns
                       ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)
), placed AS (
    SELECT *, sum(CAST(coalesce(start_ns > reached_ns, true) AS INTEGER)) OVER (
        PARTITION BY rack, host, interface, direction ORDER BY start_ns, end_ns) AS place  -- no ROWS: rows with the same start and end have one place
    FROM reached
)
SELECT rack,                        -- VARCHAR: as in `recordings`
       host,                        -- VARCHAR: as in `recordings`
       interface,                   -- VARCHAR: as in `recordings`
       direction,                   -- VARCHAR: as in `recordings`
       min(start_ns) AS start_ns,   -- BIGINT: start of the first bin
       max(end_ns) AS end_ns,       -- BIGINT: end of the last bin
       count(DISTINCT recording_id) AS recordings,                 -- BIGINT: recordings that cover it
       count(DISTINCT recording_id) FILTER (NOT complete) AS cut_off,  -- BIGINT: of these, recordings that did not end normally
       total(dropped) AS dropped,  -- BIGINT: packets that the captures of these recordings dropped, in both directions, and at all interfaces of their files: the same packets in each of these rows
       total(late) AS late         -- BIGINT: packets in no bin: outside the reorder window, or the years 1970 to 2100
FROM placed GROUP BY rack, host, interface, direction, place;
