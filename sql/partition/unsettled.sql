-- The writers of recordings whose end is not known and may still be found to lie behind the span: another row of them can
-- change what the span has. A row of any other recording cannot. Asked of the tables that bursts.sql left.
SELECT DISTINCT writer_id FROM recordings
WHERE ended = '' AND end_ns < getvariable('span_until_ns')
ORDER BY writer_id;
