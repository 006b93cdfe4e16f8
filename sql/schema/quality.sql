-- The bits of `quality`: for captures, the same as enum mb_quality in capture/frame.h; from 512 on, for values that
-- devices report, the same as in telemetry/tables.py. `incomplete` is in no file: bursts.sql sets it for bursts.
CREATE TABLE quality (bit USMALLINT NOT NULL, name VARCHAR NOT NULL, meaning VARCHAR NOT NULL);
INSERT INTO quality VALUES
    (1,   'hw',        'stamped by the network interface'),
    (2,   'sw',        'stamped by the kernel on receipt'),
    (4,   'ring',      'stamped when the kernel copied the packet to the capture ring'),
    (8,   'file-µs',   'timestamps of the file have a resolution of 1 µs or coarser'),
    (16,  'unsynced',  'the clock was not synchronized'),
    (32,  'drops',     'packets were dropped in this time, or samples of a switch are missing: counts are lower bounds'),
    (64,  'gro',       'merged frames: wire bytes are estimated, timing inside them is unknown'),
    (128, 'truncated', 'the snap length cut headers: some senders or marks are unknown'),
    (256, 'stepped',   'the clock stepped at an edge of this time'),
    (512, 'reset',     'a counter was reset in this time: its counts are lower bounds'),
    (1024, 'impossible', 'more than the port can carry or the queue can hold: not used'),
    (2048, 'gap',      'nothing was received from the device for a part of this time'),
    (4096, 'guessed',  'the device did not report when this time began or ended'),
    (8192, 'gnmi_duplicates', 'the device left values out (gNMI duplicates): a maximum among them is not known'),
    (16384, 'incomplete', 'a damaged file is missing in this time: counts are lower bounds'),
    (32768, 'jitter',  'a switch took a sample earlier or later than the width of bins: the bin covers a longer or shorter time than its width');
