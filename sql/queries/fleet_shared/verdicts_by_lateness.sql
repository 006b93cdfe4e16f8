-- Verdicts, and the place of each by lateness: first those with a latency tail, then those of which that is not known; of
-- either, that of most lateness.
SELECT verdicts.*, ROW_NUMBER() OVER (
    ORDER BY CASE WHEN has_tail THEN 0 WHEN has_tail IS NULL THEN 1 ELSE 2 END, COALESCE(excess_ns, -1) DESC, host, start_ns, rack
) AS lateness_place
FROM verdicts
