"""Rows for stores in tests: complete, although a test states only the columns that matter to it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa

from mburst.sql import StoreFolder, segments
from mburst.sql.tables import arrow_schema

DEFAULTS: dict[str, Any] = {
    "recording_id": "run-1",
    "host": "cache-1",
    "ts_ns": 1_700_000_000_000_000_000,
    "rack": "r1",
    "interface": "eth0",
    "direction": "in",
    "clock_epoch": 0,
    "bytes": 0,
    "wire_bytes": 0,
    "packets": 1,
    "ce_packets": 0,
    "retransmits": 0,
    "quality": 0,
    "source": "10.0.0.1",
    "flows": 1,
    "members": 1,
    "writer_id": "0123456789ab",
    "link_bps": 10**9,
    "bin_ns": 1_000_000,
    "source_bin_ns": 1_000_000,
    "backend": "file",
    "input": "cache.pcap",
    "filter": "",
    "snaplen": 0,
    "clock": "file, 1 ns",
    "offloads": "",
    "notes": "",
    "start_ns": None,
    "end_ns": None,
    "clock_epochs": 1,
    "unattributed_packets": 0,
    "unattributed_bytes": 0,
    "dropped": 0,
    "late": 0,
    "late_bytes": 0,
    "unparsed": 0,
    "version": "0.1.0",
    "complete": True,
    "written_ns": 10**18,
    "begun_ns": 10**18,
    "ended": "finished",
    "batch": "batch-1",
    "device": "tor-1",
    "port": "swp1",
    "queue": "0",
    "semantics": "gauge",
    "seq": 0,
    "src": "a",
    "dst": "b",
    "protocol": "udp",
    "lost": False,
    "stamp_kind": "sw",
}


def rows(table: str, *given: dict[str, Any]) -> pa.Table:
    """Returns GIVEN as rows of TABLE, with defaults in the other columns (NULL in nullable ones)."""
    schema = arrow_schema(table)
    usual = {field.name: None if field.nullable else DEFAULTS.get(field.name) for field in schema}
    if table == "recordings":
        given = tuple({**_of_recording(row), **row} for row in given)
    columns = [
        pa.array([row.get(name, other) for row in given], schema.field(name).type) for name, other in usual.items()
    ]
    return pa.Table.from_arrays(columns, schema=schema)


def _of_recording(row: dict[str, Any]) -> dict[str, Any]:
    """Returns the defaults of a recording for values that ROW does not have: its link speed, how it ended, and a
    capture of its own."""
    ended = DEFAULTS["ended"] if row.get("complete", DEFAULTS["complete"]) else ""
    capture = f"capture of {row.get('recording_id', DEFAULTS['recording_id'])}"
    return {"link_bps": DEFAULTS["link_bps"], "ended": ended, "capture_id": capture}


def write(store: StoreFolder, table: str, *given: dict[str, Any], writer_id: str | None = None) -> None:
    """Appends GIVEN to TABLE and seals, with a writer for each host and rack, called WRITER_ID or by a new name."""
    lanes: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for row in given:
        lanes.setdefault((row.get("host", DEFAULTS["host"]), row.get("rack", DEFAULTS["rack"])), []).append(row)
    for (host, rack), wanted in lanes.items():
        with store.writer(table, host, rack, writer_id) as writer:
            writer.append(rows(table, *wanted))


def hot_logs(store: StoreFolder, table: str) -> list[Path]:
    """Returns the hot logs of TABLE."""
    return list(segments.list_hot(store.path, table).logs)


def sealed_files(store: StoreFolder, table: str) -> list[Path]:
    """Returns the sealed files of TABLE, whether they count or not."""
    return [file.path for file in segments.list_sealed(store.path, table, segments.FileSelection()).files]
