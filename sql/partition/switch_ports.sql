-- How many recordings of switch ports (backend `otlp`) lie in the span: partitions are of hosts, and leave them out.
SELECT count(DISTINCT recording_id) AS recordings
FROM recorded JOIN (SELECT recording_id FROM recordings WHERE backend = 'otlp') USING (recording_id)
WHERE start_ns < getvariable('span_until_ns') AND end_ns > getvariable('span_since_ns');
