"""The tables of the store as Arrow schemas, read from their one definition in schema/*.sql."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa

SCHEMA = Path(__file__).parent / "schema"
VIEWS = Path(__file__).parent / "model"
PARTITION = Path(__file__).parent / "partition"
MISSING_BINS = Path(__file__).parent / "missing_bins.sql"
STORE_FORMAT = 2
COMPLETE = ("finished", "stopped")  # values of `ended` for a recording that came to its end

# Recordings come last: a row is written before its bins, so no reader sees bins without their recording.
LISTING = [
    "bins", "sources", "queues", "ports", "buffers", "links", "gnmi_values", "gnmi_events", "device_clocks", "probes",
    "clock", "gaps", "canary", "steps", "latency_steps", "kept", "thinned", "names", "recordings",
]  # fmt: skip

RECORDED = ("bins", "sources")  # tables whose rows need a row of `recordings`
NEAR_TABLES = (*RECORDED, "port_bins")  # results of a fleet: the rows near bursts, if they were shipped

# Columns that rows of switch ports have in addition to those of hosts: partition/of_ports.sql.
ATTACHED = ("attached_host", "attached_interface")

# The views of model/*.sql, each after the views that it reads.
MODEL = (
    "counts", "recorded", "coverage", "latency", "path_latency", "latency_counts", "path_quantiles", "queue_windows",
    "flow_control", "newest",
)  # fmt: skip

# The order of the rows in a sealed file. The last column is the time that decides the date of a row.
ORDER = {
    "recordings": ("written_ns",),
    "bins": ("interface", "direction", "ts_ns"),
    "sources": ("interface", "direction", "ts_ns"),
    "queues": ("device", "port", "ts_ns"),
    "probes": ("tx_ns",),
    "clock": ("interface", "ts_ns"),
    "gaps": ("interface", "start_ns"),
    "canary": ("interface", "start_ns"),
    "steps": ("interface", "direction", "ts_ns"),
    "latency_steps": ("src", "dst", "ts_ns"),
    "kept": ("interface", "start_ns"),
    "thinned": ("interface", "start_ns"),
    "ports": ("device", "port", "ts_ns"),
    "buffers": ("device", "component", "resource", "ts_ns"),
    "links": ("device", "port", "ts_ns"),
    "gnmi_values": ("device", "path", "ts_ns"),
    "gnmi_events": ("device", "ts_ns"),
    "device_clocks": ("device", "ts_ns"),
    "names": ("prefix", "imported_ns"),
}

# The values of newer columns in rows that were written before the table had them, if older columns determine them.
DERIVED = {
    ("recordings", "begun_ns"): "written_ns",
    ("recordings", "ended"): "CASE WHEN complete THEN 'finished' ELSE '' END",
}

_COLUMN = re.compile(
    r"^ {4}(\w+)\s+(VARCHAR|BIGINT|UINTEGER|USMALLINT|BOOLEAN)( NOT NULL)?(?: DEFAULT ([^,]+))?,?\s*(?:--.*)?$",
    re.MULTILINE,
)


@dataclass(frozen=True)
class Column:
    """A column as CREATE TABLE defines it. `type` is the type in DuckDB, `default` the SQL of its value in rows that
    were written before the table had it."""

    name: str
    type: str
    nullable: bool
    default: str


def schema_sql(name: str) -> str:
    """The text of schema/NAME.sql."""
    return (SCHEMA / f"{name}.sql").read_text(encoding="utf-8")


def model_sql(name: str) -> str:
    """The text of model/NAME.sql: a view."""
    return (VIEWS / f"{name}.sql").read_text(encoding="utf-8")


def partition_sql(name: str) -> str:
    """The text of partition/NAME.sql: a query on a part of a fleet, to run after queries/bursts.sql."""
    return (PARTITION / f"{name}.sql").read_text(encoding="utf-8")


@cache
def columns(table: str) -> tuple[Column, ...]:
    """The columns of TABLE in their order."""
    return tuple(
        Column(name, kind, not required, DERIVED.get((table, name)) or default.strip() or "NULL")
        for name, kind, required, default in _COLUMN.findall(schema_sql(table))
    )


@cache
def arrow_schema(table: str) -> pa.Schema:
    """TABLE with plain (not dictionary-encoded) Arrow types."""
    import pyarrow as pa

    types = {
        "VARCHAR": pa.string(),
        "BIGINT": pa.int64(),
        "UINTEGER": pa.uint32(),
        "USMALLINT": pa.uint16(),
        "BOOLEAN": pa.bool_(),
    }
    return pa.schema([pa.field(column.name, types[column.type], column.nullable) for column in columns(table)])
