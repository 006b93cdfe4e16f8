-- The bits of `quality`, the same as enum mb_quality in capture/frame.h.
CREATE TABLE quality (bit USMALLINT NOT NULL, name VARCHAR NOT NULL, meaning VARCHAR NOT NULL);
INSERT INTO quality VALUES
    (1,   'hw',        'stamped by the network interface'),
    (2,   'sw',        'stamped by the kernel on receipt'),
    (4,   'ring',      'stamped when the kernel copied the packet to the capture ring'),
    (8,   'file-µs',   'the file''s stamps resolve 1 µs or less finely'),
    (16,  'unsynced',  'the clock was not synchronized'),
    (32,  'losing',    'packets were dropped in this time: counts are lower bounds'),
    (64,  'gso',       'merged frames: wire bytes are reckoned, timing inside them is not known'),
    (128, 'truncated', 'the snap length cut headers: some senders or marks are not known'),
    (256, 'stepped',   'the clock stepped at an edge of this time');
