"""Maps lanes that a switch recorded (backend `otlp`) to the host at the other end of the link.

What a switch's port sends is what the host behind it receives: the same bytes, the same queue before them. Evidence
about a link is therefore expressed from the host's end, whoever recorded it; only the lane in the store is the switch's
own.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import duckdb

Lane = tuple[str, str, str]  # host, interface, direction
OTHER_WAY = {"in": "out", "out": "in"}  # a mirror has both directions in one


class LinkEnd(NamedTuple):
    """The host behind a switch's port, and the direction from its side. host and interface are the switch's own if
    nothing names the host, or if it was recorded itself."""

    host: str
    interface: str
    direction: str


def link_ends(con: duckdb.DuckDBPyConnection, lanes: Iterable[Lane], at_ns: int) -> dict[Lane, LinkEnd]:
    """Returns the host's end of each of the lanes that a switch recorded, by the links that were valid at AT_NS."""
    rows = con.execute("SELECT DISTINCT host, interface, direction FROM recordings WHERE backend = 'otlp'").fetchall()
    of_switches = set(rows)
    recorded = {lane[:2] for lane in lanes if lane not in of_switches}
    behind = hosts_behind(con, at_ns) if of_switches else {}
    found = {}
    for device, port, direction in of_switches.intersection(lanes):
        host, interface = behind.get((device, port), ("", ""))
        is_recorded = any(host == name and interface in ("", nic) for name, nic in recorded)
        if not host or is_recorded:
            host, interface = device, port
        found[device, port, direction] = LinkEnd(host, interface or port, OTHER_WAY.get(direction, direction))
    return found


def hosts_behind(con: duckdb.DuckDBPyConnection, at_ns: int) -> dict[tuple[str, str], tuple[str, str]]:
    """Returns (device, port) of switches → (host, interface), if a single host is attached at AT_NS; the first of its
    interfaces."""
    rows = con.execute("FROM attached_hosts('links', $at)", {"at": at_ns}).fetchall()
    return {(device, port): (host, interface) for device, port, host, interface in rows}
