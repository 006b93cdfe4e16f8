-- The writers of recordings whose end is not known and may turn out to lie after the span: another row of such a
-- recording can change the results of the span. A row of any other recording cannot. Reads the tables that bursts.sql
-- creates.
SELECT DISTINCT writer_id FROM recordings
WHERE ended = '' AND end_ns < getvariable('span_until_ns')
ORDER BY writer_id;
