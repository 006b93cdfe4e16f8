"""What senders of OTLP may take of this host's memory. What is beyond is counted and reported to the sender."""

from __future__ import annotations

MESSAGE_BYTES = 4 << 20  # of one message, unpacked, unless the configuration says otherwise
PART_BYTES = 8  # of a message, for each part (point, metric, …): those that say something have twice as many
SERIES = 100_000  # that are known of all senders
SERIES_BYTES = 2048  # of the attributes of one
RESOURCES = 10_000  # that are known of all senders
UNUSED_NS = 3600 * 10**9  # after which a resource that sends nothing may be forgotten, where there are too many
NAMES = 1000  # of metrics without a meaning that are distinguished
DEVICES = 1000
POINTS = 4_000_000  # that wait to be put in order
DETAILS = 32  # of what was counted, that are distinguished between two reports
AHEAD_NS = 60 * 10**9  # of this host's clock, that a point may be: for so long it silences what is sent in time
