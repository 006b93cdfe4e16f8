"""The tables that telemetry fills, as Arrow schemas with the same columns as their files in sql/schema/."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from ..quality import Quality
from ..units import NS_PER_MINUTE

TEXT, NUMBER = pa.string(), pa.int64()
SET_BACK_NS = NS_PER_MINUTE  # that a clock was set back: more than the delay of values that were overtaken

PROBES = pa.schema(
    {
        "batch": TEXT, "seq": NUMBER, "src": TEXT, "dst": TEXT, "protocol": TEXT, "app_send_ns": NUMBER,
        "tx_ns": NUMBER, "remote_rx_ns": NUMBER, "remote_tx_ns": NUMBER, "rx_ns": NUMBER, "app_recv_ns": NUMBER,
        "rtt_ns": NUMBER, "lost": pa.bool_(), "stamp_kind": TEXT, "clock_error_ns": NUMBER,
    }
)  # fmt: skip
QUEUES = pa.schema(
    {
        "batch": TEXT, "device": TEXT, "port": TEXT, "queue": TEXT, "window_start_ns": NUMBER, "ts_ns": NUMBER,
        "receive_ns": NUMBER, "max_bytes": NUMBER, "avg_bytes": NUMBER, "transmit_bytes": NUMBER,
        "dropped_packets": NUMBER, "ecn_marked_packets": NUMBER, "semantics": TEXT, "quality": pa.uint16(),
    }
)  # fmt: skip

PORTS = pa.schema(
    {
        "batch": TEXT, "device": TEXT, "port": TEXT, "window_start_ns": NUMBER, "ts_ns": NUMBER, "receive_ns": NUMBER,
        "in_bytes": NUMBER, "out_bytes": NUMBER, "in_discards": NUMBER, "out_discards": NUMBER,
        "in_pause_frames": NUMBER, "out_pause_frames": NUMBER, "link_bps": NUMBER, "quality": pa.uint16(),
    }
)  # fmt: skip
BUFFERS = pa.schema(
    {
        "batch": TEXT, "device": TEXT, "component": TEXT, "resource": TEXT, "window_start_ns": NUMBER, "ts_ns": NUMBER,
        "receive_ns": NUMBER, "used_bytes": NUMBER, "max_bytes": NUMBER, "limit_bytes": NUMBER, "semantics": TEXT,
        "quality": pa.uint16(),
    }
)  # fmt: skip
LINKS = pa.schema(
    {
        "batch": TEXT, "ts_ns": NUMBER, "host": TEXT, "interface": TEXT, "rack": TEXT, "link_bps": NUMBER,
        "device": TEXT, "port": TEXT, "queue": TEXT, "origin": TEXT, "present": pa.bool_(),
    }
)  # fmt: skip
GNMI_VALUES = pa.schema(
    {
        "batch": TEXT, "device": TEXT, "path": TEXT, "ts_ns": NUMBER, "receive_ns": NUMBER, "value": TEXT, "kind": TEXT,
        "duplicates": NUMBER, "deleted": pa.bool_(),
    }
)  # fmt: skip
GNMI_EVENTS = pa.schema(
    {
        "batch": TEXT, "device": TEXT, "subscription": TEXT, "ts_ns": NUMBER, "until_ns": NUMBER, "event": TEXT,
        "amount": NUMBER, "detail": TEXT,
    }
)  # fmt: skip
DEVICE_CLOCKS = pa.schema(
    {
        "batch": TEXT, "device": TEXT, "ts_ns": NUMBER, "messages": NUMBER, "least_lag_ns": NUMBER,
        "largest_lag_ns": NUMBER, "rtt_ns": NUMBER, "offset_ns": NUMBER, "uncertainty_ns": NUMBER,
    }
)  # fmt: skip

# Tables of which each sample of a device is a row.
FREQUENT = {"queues": QUEUES, "ports": PORTS, "buffers": BUFFERS, "gnmi_values": GNMI_VALUES}
# Of these, the text columns that are the same for all rows of one source.
SOURCE_COLUMNS = {
    "queues": ("batch", "device", "port", "queue", "semantics"),
    "ports": ("batch", "device", "port"),
    "buffers": ("batch", "device", "component", "resource", "semantics"),
    "gnmi_values": ("batch", "device", "path"),
}

# The columns that values of a device fill.
QUEUE_VALUES = ("max_bytes", "avg_bytes", "transmit_bytes", "dropped_packets", "ecn_marked_packets")
PORT_VALUES = (
    "in_bytes",
    "out_bytes",
    "in_discards",
    "out_discards",
    "in_pause_frames",
    "out_pause_frames",
    "link_bps",
)
BUFFER_VALUES = ("used_bytes", "max_bytes", "limit_bytes")

STAMP_KINDS = ("hw", "sw", "app", "")
SEMANTICS = ("gauge", "max-since-last", "periodic-max", "sliding-max", "event")

# Bits of quality about what a device reported, as the plain numbers of rows.
QUALITY_RESET, QUALITY_IMPOSSIBLE, QUALITY_GAP, QUALITY_GUESSED, QUALITY_GNMI_DUPLICATES, QUALITY_JITTER = (
    int(bit)
    for bit in (
        Quality.RESET, Quality.IMPOSSIBLE, Quality.GAP, Quality.GUESSED, Quality.GNMI_DUPLICATES, Quality.JITTER,
    )
)  # fmt: skip


def text_column(texts: list[str], places: np.ndarray[Any, Any]) -> pa.DictionaryArray:
    """A text column from the texts of its sources and the source of each row."""
    numbers: dict[str, int] = {}
    of_source = np.array([numbers.setdefault(text, len(numbers)) for text in texts], np.int32)
    return pa.DictionaryArray.from_arrays(pa.array(of_source[places]), pa.array(list(numbers), pa.string()))
