"""Which host is attached to which switch port at a time, from rows of `links`, as docs/schema.md defines it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

Link = Mapping[str, Any]
KEY = ("device", "port", "host", "interface", "origin")


def links_at(rows: Sequence[Link], at_ns: int) -> list[Link]:
    """Returns the links as last reported until then or, for a host without an earlier report, as first reported; only
    the rows of the configuration if it names the link."""
    last: dict[tuple[Any, ...], Link] = {}
    for row in sorted(rows, key=lambda row: (row["ts_ns"], row["present"])):
        first_ns = min(other["ts_ns"] for other in rows if other["host"] == row["host"])
        if row["ts_ns"] <= max(at_ns, first_ns):
            last[tuple(row.get(name) for name in KEY)] = row
    there = [row for row in last.values() if row["present"]]
    configured = {_place(row) for row in there if row["origin"] == "configuration"}
    return [row for row in there if row["origin"] == "configuration" or _place(row) not in configured]


def _place(row: Link) -> tuple[Any, ...]:
    return row.get("device"), row["port"], row["host"]
