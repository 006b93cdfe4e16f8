"""The counters of switch ports with the recorded ports that they belong to: the input of conservation.py."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from .arrivals import Arrivals
from .conservation import LEAST, Agreement, BinContent, SwitchWindows, counted, drained, grown, untested
from .counter_windows import added_up, apart
from .evidence.switch import PortQueue
from .port import Port
from .read import Name
from .read_counters import content, is_filtered, port_of, port_windows, queue_windows

if TYPE_CHECKING:
    import duckdb

OTHERS = 100  # ports that are tried if the linked one does not fit


def do_the_sources_agree(
    con: duckdb.DuckDBPyConnection,
    ports: list[Port],
    linked: Mapping[int, Name],
    queues: dict[int, PortQueue],
    arrivals: dict[int, Arrivals | None],
    origin: int,
) -> list[Agreement]:
    """Returns every comparison that the store allows, for each recorded port. linked, queues and arrivals are by
    id(port)."""
    found = []
    for port in ports:
        byte_rows = of_counters(con, port, linked.get(id(port)), origin)
        found += byte_rows
        lag = next((row.lag_ns for row in byte_rows if row.state == "agree" and row.lag_ns), 0.0)
        if queue := queues.get(id(port)):
            found.append(drained(port, queue, lag))
            if came := arrivals.get(id(port)):
                found.append(grown(port, queue, came.backlog, lag))
    return found


def of_queues(
    port: Port, name: str, queues: list[SwitchWindows], holding: Callable[[SwitchWindows], BinContent], filtered: bool
) -> Agreement:
    """Compares the bytes of all QUEUES of the switch port NAME with the port's bins: see `counted`."""
    what, queues = "bytes of its queues", [apart(queue) for queue in queues]
    queued = added_up(name, queues)
    if len(queued.start) < LEAST <= max(len(queue.start) for queue in queues):
        return untested(what, name, port, "its queues are counted in windows that differ from each other")
    return counted(what, port, queued, holding, filtered)


def of_counters(con: duckdb.DuckDBPyConnection, port: Port, linked: Name | None, origin: int) -> list[Agreement]:
    """Compares the port's counters and those of its queues with its bins. If the linked port does not fit, looks for
    the port that does."""
    what = "bytes of the switch's port"
    if port.switch:
        said = f"{port.host} itself was not recorded, so there is nothing to compare them with"
        return [untested(what, " ".join(port.switch[:2]), port, said)] if port.is_stand_in else []
    counts = port_windows(con, port, origin)
    name = port_of(port, linked, sorted(counts))
    if name is None:
        return []
    filtered = is_filtered(con, port)

    def holding(windows: SwitchWindows) -> BinContent:
        return content(con, port, windows, origin)

    found = [counted(what, port, counts[name], holding, filtered)] if name in counts else []
    if found and found[0].state == "disagree" and not found[0].blamed:
        others = [other for other in sorted(counts) if other != name][:OTHERS]
        right = [other for other in others if counted(what, port, counts[other], holding).state == "agree"]
        if len(right) == 1:
            said = f"{found[0].said}; those of {' '.join(right[0])} fit: the link names the wrong port"
            found[0] = found[0]._replace(blamed="link", said=said)
    if port.direction == "in" and (queues := queue_windows(con, port, name, origin)):
        found.append(of_queues(port, " ".join(name), queues, holding, filtered))
    return found or [untested(what, " ".join(name), port, "it counted no bytes in the recorded time")]
