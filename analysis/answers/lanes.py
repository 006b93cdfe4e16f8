"""The lanes of a store (each one direction of one interface), their bursts, and which recordings of a lane are of a
period."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from ..bursts.find import BurstDefinition, find_bursts
from ..model import context
from ..model.envelope import Interval
from ..model.ports import of_port

if TYPE_CHECKING:
    import duckdb


@dataclass(frozen=True)
class ReportLane:
    """One direction of one interface, recorded at one bin width and link speed; `recordings` are its rows of that
    table, with `is_span_known`."""

    rack: str
    host: str
    interface: str
    direction: str
    bin_ns: int
    link_bps: int | None
    recordings: Sequence[Mapping[str, Any]]

    @property
    def is_port(self) -> bool:
        """Whether the lane is a port of a switch; `host` is then the switch."""
        return of_port(self.recordings)

    def total(self, column: str) -> int:
        """Returns the sum of a column of `recordings` over the lane's recordings that counted it."""
        return sum(int(recording[column] or 0) for recording in self.recordings)

    def distinct(self, column: str) -> list[Any]:
        """Returns the distinct values of a column of `recordings`, in the order of the recordings, without empty
        ones."""
        return list(
            dict.fromkeys(recording[column] for recording in self.recordings if recording[column] not in ("", None))
        )


_LANE = ("rack", "host", "interface", "direction", "bin_ns", "link_bps")
_RECORDINGS = """
SELECT *, is_span_known(clock_epochs, start_ns, end_ns) AS is_span_known
FROM recordings WHERE ($rack IS NULL OR rack = $rack) AND ($host IS NULL OR host = $host)
ORDER BY rack, host, interface, direction, bin_ns, link_bps NULLS LAST, start_ns NULLS LAST, recording_id
"""


def lanes(
    con: duckdb.DuckDBPyConnection, rack: str | None = None, host: str | None = None, link_bps: int | None = None
) -> list[ReportLane]:
    """Returns the lanes of a store, ordered by rack, host, interface and direction. `link_bps` replaces the recorded
    link speed."""
    grouped: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for recording in context.dicts(con, _RECORDINGS, {"rack": rack, "host": host}):
        recording["link_bps"] = link_bps or recording["link_bps"]
        grouped.setdefault(tuple(recording[name] for name in _LANE), []).append(recording)
    return [
        ReportLane(**dict(zip(_LANE, key, strict=True)), recordings=recordings) for key, recordings in grouped.items()
    ]


def detect(
    con: duckdb.DuckDBPyConnection,
    chosen: Sequence[ReportLane],
    definition: BurstDefinition,
    since_ns: int | None = None,
    until_ns: int | None = None,
) -> list[dict[str, Any]]:
    """Returns the bursts of the lanes with a known link speed, as `analysis.bursts` detects them.

    Leaves the TEMP TABLE report_senders in CON: the bytes of each sender in the bursts of each recording. Raises the
    errors of find_bursts.
    """
    con.execute("CREATE OR REPLACE TEMP TABLE report_senders (recording_id VARCHAR, source VARCHAR, bytes DOUBLE)")
    known = [recording["recording_id"] for lane in chosen if lane.link_bps for recording in lane.recordings]
    whole = con.execute("SELECT count(*) FROM recordings").fetchall()[0][0] == len(known)
    bursts: list[dict[str, Any]] = []
    for recording in [None] if whole else known:  # one query for all, unless some have to be left out
        bursts += find_bursts(con, definition, recording=recording, since_ns=since_ns, until_ns=until_ns)
        con.execute(
            "INSERT INTO report_senders SELECT recording_id, source, sum(s.bytes) FROM burst_sources s "
            "JOIN bursts USING (burst) GROUP BY recording_id, source"
        )
    return bursts


def within_period(lane: ReportLane, found: set[str], period: Interval) -> ReportLane:
    """Returns the lane with its recordings of a period alone: those FOUND in it, those whose bins of it are missing,
    and those without a packet that were written in it."""
    since, until = period
    recordings = [
        recording
        for recording in lane.recordings
        if recording["recording_id"] in found
        or (recording["start_ns"] is None and since <= recording["written_ns"] < until)
        or (recording["is_span_known"] and recording["start_ns"] < until and _last_ns(recording) >= since)
    ]
    return replace(lane, recordings=recordings)


def _last_ns(recording: Mapping[str, Any]) -> int:
    """Returns the last time of a recording that has one: its last packet, or the end of its last bin."""
    return int(recording["end_ns"]) - (0 if recording["complete"] else 1)


def is_beyond(
    recording: Mapping[str, Any], recorded: Mapping[str, Mapping[int, Sequence[Interval]]], period: Interval
) -> bool:
    """Returns whether a recording of a period reaches beyond it. The row has the start of the first clock epoch and the
    end of the last; an epoch does, too, if it counted up to an end of the period that the row does not know. RECORDED:
    by recording_id and epoch, within the period."""
    since, until = period
    epochs = recorded.get(recording["recording_id"], {})
    start, end, last = recording["start_ns"], recording["end_ns"], recording["clock_epochs"] - 1
    if (start is not None and start < since) or (end is not None and _last_ns(recording) >= until):
        return True
    if not epochs:
        return start is not None
    return not recording["is_span_known"] and any(
        (first <= since and epoch > 0) or (stop >= until and (epoch != last or end is None))
        for epoch, spans in epochs.items()
        for first, stop in spans
    )


def assign_bursts(bursts: Sequence[Mapping[str, Any]], chosen: Sequence[ReportLane]) -> list[list[dict[str, Any]]]:
    """Returns the bursts of each lane; a burst belongs to the lane of its recording."""
    place = {recording["recording_id"]: i for i, lane in enumerate(chosen) for recording in lane.recordings}
    owned: list[list[dict[str, Any]]] = [[] for _ in chosen]
    for burst in bursts:
        if burst["recording_id"] in place:
            owned[place[burst["recording_id"]]].append(dict(burst))
    return [sorted(own, key=lambda burst: (burst["start_ns"], burst["end_ns"], burst["recording_id"])) for own in owned]
