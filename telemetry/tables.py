"""The tables that telemetry fills, as Arrow: the same columns as sql/schema/probes.sql and queues.sql."""

from __future__ import annotations

import pyarrow as pa

TEXT, NUMBER = pa.string(), pa.int64()

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

STAMP_KINDS = ("hw", "sw", "app", "")
SEMANTICS = ("gauge", "max-since-last", "periodic-max", "event")
