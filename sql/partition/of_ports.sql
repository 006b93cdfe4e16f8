-- The rows of `answered` about recordings of switch ports: `host` is the device, `interface` the port, and `direction`
-- as the switch sees it: `out` is towards the attached host.
SELECT answered.*,
       attached_host,      -- VARCHAR: the host that `links` names behind the port; NULL: none, or several
       attached_interface  -- VARCHAR: its interface; '' if it is not known
FROM answered JOIN (
    SELECT recording_id, attached_host, attached_interface FROM lanes WHERE backend = 'otlp') USING (recording_id)
ORDER BY answered.rowid;
