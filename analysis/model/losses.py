"""What captures dropped: packets that the interface had and that no recording counted.

A row of `recordings` has what its whole capture dropped, in both directions and at all interfaces of its files. Such a
number is never summed over the recordings of one capture, nor compared with the packets of one of them. The row of a
recording that did not end is older than its last losses: then `gaps` may have more, and there may be more than that.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ...units import format_count, format_share

if TYPE_CHECKING:
    import duckdb

# Of the store, whatever temporary views of these names a caller has: DuckDB has a schema `main` of those, too.
_CAPTURES = """
SELECT capture_id, CAST(greatest(max(dropped), coalesce(any_value(missed), 0)) AS BIGINT) AS dropped,
       CAST(sum(packets) AS BIGINT) AS packets, count(DISTINCT direction) AS directions,
       count(DISTINCT interface) AS interfaces, bool_or(NOT complete) AS is_least
FROM memory.main.recordings LEFT JOIN (
    SELECT capture_id, sum(gaps.packets) AS missed
    FROM memory.main.gaps JOIN memory.main.recordings USING (recording_id)
    WHERE counts_as_dropped(reason) GROUP BY capture_id
) USING (capture_id) GROUP BY capture_id
"""


@dataclass(frozen=True)
class CaptureLoss:
    """The packets that captures `dropped`, and the `packets` in bins of all of their recordings. `directions` and
    `interfaces`: the most that one of the captures has. `is_least`: a recorder did not end, or not normally, so that
    more may have been dropped."""

    dropped: int = 0
    packets: int = 0
    directions: int = 1
    interfaces: int = 1
    is_least: bool = False

    @property
    def scope(self) -> str:
        """ "in both directions"; '' if the captures are of one port direction."""
        if self.interfaces > 1:
            return "at all interfaces of the capture"
        return "in both directions" if self.directions > 1 else ""

    @property
    def count(self) -> str:
        """ "at least 9,657 in both directions", "5" """
        return f"{'at least ' if self.is_least else ''}{self.dropped:,}{' ' if self.scope else ''}{self.scope}"

    @property
    def sentence(self) -> str:
        """ "at least 9,657 packets were dropped, in both directions" """
        return self.sentence_with()

    def sentence_with(self, when: str = "") -> str:
        """Returns `sentence` with WHEN after its verb, such as "before they were seen"."""
        number = f"{'at least ' if self.is_least else ''}{format_count(self.dropped, 'packet')}"
        verb = " ".join(filter(None, (f"{'was' if self.dropped == 1 else 'were'} dropped", when)))
        return ", ".join(filter(None, (f"{number} {verb}", self.scope)))

    @property
    def share(self) -> str:
        """ "50 % of what passed in both directions"; '' if more may have been dropped."""
        if self.is_least or not self.dropped:
            return ""
        of_all = format_share(self.dropped / (self.dropped + self.packets))
        return " ".join(filter(None, (of_all, "of what passed", self.scope)))


def by_capture(con: duckdb.DuckDBPyConnection) -> dict[str, CaptureLoss]:
    """Returns the losses of each capture, by capture_id."""
    return {row[0]: CaptureLoss(*row[1:]) for row in con.execute(_CAPTURES).fetchall()}


def summed(losses: Mapping[str, CaptureLoss], captures: Iterable[str]) -> CaptureLoss:
    """Returns the losses of CAPTURES, by capture_id, together. A capture that is named twice counts once."""
    found = [losses[capture] for capture in dict.fromkeys(captures) if capture in losses]
    if not found:
        return CaptureLoss()
    return CaptureLoss(
        sum(of.dropped for of in found),
        sum(of.packets for of in found),
        max(of.directions for of in found),
        max(of.interfaces for of in found),
        any(of.is_least for of in found),
    )
