-- The number of recordings of switch ports in the span: those in which bursts were detected, and those that bursts.sql
-- left out.
SELECT count(DISTINCT recording_id) FILTER (recording_id IN (SELECT recording_id FROM lanes)) AS detected,
       count(DISTINCT recording_id) FILTER (recording_id NOT IN (SELECT recording_id FROM lanes)) AS unfit
FROM recorded JOIN (SELECT recording_id FROM recordings WHERE backend = 'otlp') USING (recording_id)
WHERE start_ns < getvariable('span_until_ns') AND end_ns > getvariable('span_since_ns');
