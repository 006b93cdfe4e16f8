-- The rows of `answered` about recordings of hosts.
SELECT * FROM answered WHERE recording_id IN (SELECT recording_id FROM lanes WHERE backend <> 'otlp') ORDER BY rowid;
