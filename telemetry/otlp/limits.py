"""Limits for the memory that senders of OTLP use on this host. What exceeds them is counted and reported to the
sender."""

from __future__ import annotations

from ...units import NS_PER_HOUR, NS_PER_MINUTE

MESSAGE_BYTES = 4 << 20  # of one message, uncompressed, unless the configuration states another limit
PART_BYTES = 8  # of a message for each part (point, metric, …): meaningful parts have twice as many
SERIES = 100_000  # of all senders
SERIES_BYTES = 2048  # of the attributes of one series
RESOURCES = 10_000  # of all senders
UNUSED_NS = NS_PER_HOUR  # after which a resource that sends nothing may be forgotten, if there are too many
NAMES = 1000  # of metrics without a meaning that are distinguished
DEVICES = 1000
POINTS = 4_000_000  # that wait to be ordered
DETAILS = 32  # of counts that are distinguished between two reports
AHEAD_NS = NS_PER_MINUTE  # by which a point may be ahead of this host's clock: it silences punctual points so long
