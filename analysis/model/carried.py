"""How much a link can seem to carry, and bursts beyond it: its speed is wrong, its traffic is there twice, or its
packets were stamped late."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from ...units import format_count, format_rate, format_share

if TYPE_CHECKING:
    import duckdb

MERGED = 65536  # bytes of the largest merged frame: all of them may be counted at one moment
COALESCED = 100_000  # ns for which an interface may hold packets before the kernel stamps them
ABOVE = 1.1  # of line rate: wire bytes of merged frames are estimated
NO_LINK = "no link carries that"
WHY = "its traffic may be recorded twice, or its packets stamped late, after this machine paused"

_ABOVE = """
SELECT host, interface, direction, link_bps, duration_ns, mean_utilization
FROM bursts WHERE mean_utilization > $above ORDER BY host, interface, direction
"""


class ImpossibleBursts(NamedTuple):
    """How many bursts of a port direction are impossible, and the largest of their means."""

    bursts: int
    most: float
    link_bps: int

    @property
    def words(self) -> str:
        """ "36 bursts read up to 1,540 % of 100 Mb/s over their whole time" """
        most = f"{format_share(self.most)} of {format_rate(self.link_bps)}"
        return f"{format_count(self.bursts, 'burst')} read up to {most} over their whole time"


def most_carried(span_ns: float, link_bps: float, direction: str) -> float:
    """Returns the most wire bytes that a port direction can seem to carry in a time, with merged frames and the
    stamps of a machine that does not pause. A mirror carries both directions."""
    rate = link_bps / 8e9
    return rate * span_ns * ABOVE * (2 if direction == "mirror" else 1) + MERGED + rate * COALESCED


def impossible_bursts(bursts: Iterable[Mapping[str, Any]]) -> ImpossibleBursts | None:
    """Returns those of a port direction's BURSTS in which it carried more than it can seem to; None: none."""
    found = [
        (burst["mean_utilization"], burst["link_bps"])
        for burst in bursts
        if burst["mean_utilization"] * burst["link_bps"] / 8e9 * burst["duration_ns"]
        > most_carried(burst["duration_ns"], burst["link_bps"], burst["direction"])
    ]
    return ImpossibleBursts(len(found), *max(found)) if found else None


def beyond_links(con: duckdb.DuckDBPyConnection) -> list[str]:
    """Returns a sentence for each interface and direction with impossible bursts, of those that detect_bursts() left in
    CON."""
    lanes: dict[tuple[str, ...], list[dict[str, Any]]] = {}
    answer = con.execute(_ABOVE, {"above": ABOVE})
    names = [column[0] for column in answer.description or []]
    for row in answer.fetchall():
        lanes.setdefault(row[:3], []).append(dict(zip(names, row, strict=True)))
    return [
        f"{' '.join(lane)}: {found.words}: {NO_LINK}; the link may be faster (--link), {WHY}"
        for lane, bursts in lanes.items()
        if (found := impossible_bursts(bursts))
    ]
