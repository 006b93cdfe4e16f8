"""The times in which recordings counted. This is the only reader of the store's view `recorded`, for every answer.

A burst is not always within these times: of bins wider than the recorded ones, it can begin before its recording or end
after it, and it goes on over bins that are missing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from .envelope import Interval, merge_intervals

if TYPE_CHECKING:
    import duckdb

_RECORDED = """
SELECT recording_id, clock_epoch, greatest(start_ns, $since), least(end_ns, $until) FROM recorded
WHERE start_ns < $until AND end_ns > $since AND coalesce(rack = $rack, true)
"""
_BINNED = """
SELECT min(coalesce(start_ns, 0)) FROM recordings
WHERE NOT is_span_known(clock_epochs, start_ns, end_ns) AND coalesce(rack = $rack, true)
"""
EARLIEST, LATEST = -(2**63), 2**63 - 1  # Unix ns: no limit


def by_epoch(
    con: duckdb.DuckDBPyConnection, since_ns: int | None = None, until_ns: int | None = None, rack: str | None = None
) -> dict[tuple[str, int], list[Interval]]:
    """Returns, by recording_id and clock epoch, the times within [since_ns, until_ns) in which the recording counted:
    whole bins, in several intervals if bins are missing in between."""
    where = {
        "since": EARLIEST if since_ns is None else since_ns,
        "until": LATEST if until_ns is None else until_ns,
        "rack": rack,
    }
    found: dict[tuple[str, int], list[Interval]] = {}
    for recording, epoch, start, end in con.execute(_RECORDED, where).fetchall():
        found.setdefault((recording, epoch), []).append((start, end))
    return found


def binned_since(con: duckdb.DuckDBPyConnection, rack: str | None = None) -> int | None:
    """Returns the time from which on `by_epoch` reads bins, because the rows of some recordings do not state when they
    counted. CON needs the files from that time on. None: it reads no bins."""
    [(since_ns,)] = con.execute(_BINNED, {"rack": rack}).fetchall()
    return None if since_ns is None else int(since_ns)


def recorded(
    con: duckdb.DuckDBPyConnection, since_ns: int | None = None, until_ns: int | None = None, rack: str | None = None
) -> dict[str, list[Interval]]:
    """Returns the result of `by_epoch` by recording_id alone."""
    return by_recording(by_epoch(con, since_ns, until_ns, rack))


def by_recording(known: Mapping[tuple[str, int], Sequence[Interval]]) -> dict[str, list[Interval]]:
    """Returns a result of `by_epoch` by recording_id alone."""
    found: dict[str, list[Interval]] = {}
    for (recording, _), spans in known.items():
        found.setdefault(recording, []).extend(spans)
    return found


def covered(found: Mapping[str, Sequence[Interval]], recordings: Iterable[str]) -> list[Interval]:
    """Returns the times in which at least one of RECORDINGS counted: ascending, disjoint."""
    return merge_intervals([span for recording in recordings for span in found.get(recording, ())])


def repeated(spans: Iterable[Interval]) -> list[Interval]:
    """Returns the times that are in more than one of SPANS: ascending, disjoint."""
    found, reached = [], EARLIEST
    for start, end in sorted(spans):
        if start < min(end, reached):
            found.append((start, min(end, reached)))
        reached = max(reached, end)
    return merge_intervals(found)


def outside(spans: Iterable[Interval], others: Iterable[Interval]) -> list[Interval]:
    """Returns the parts of SPANS that are in none of OTHERS: ascending, disjoint."""
    left = merge_intervals([*spans])
    for begin, finish in others:
        parts = [(start, min(end, begin)) for start, end in left] + [(max(start, finish), end) for start, end in left]
        left = sorted((start, end) for start, end in parts if start < end)
    return left


def within(spans: Iterable[Interval], others: Iterable[Interval]) -> list[Interval]:
    """Returns the parts of SPANS that are in one of OTHERS: ascending, disjoint."""
    left, bounds = merge_intervals([*spans]), merge_intervals([*others])
    found, first = [], 0
    for start, end in left:
        while first < len(bounds) and bounds[first][1] <= start:
            first += 1
        at = first
        while at < len(bounds) and bounds[at][0] < end:
            found.append((max(start, bounds[at][0]), min(end, bounds[at][1])))
            at += 1
    return found


def in_bursts(
    bursts: Iterable[Mapping[str, Any]], known: Mapping[tuple[str, int], Sequence[Interval]]
) -> dict[tuple[str, int], list[Interval]]:
    """Returns the time in BURSTS by recording_id and clock epoch, as far as it is recorded there according to KNOWN, a
    result of `by_epoch`: ascending, disjoint. What another recording of the interface has is not in the burst."""
    found: dict[tuple[str, int], list[Interval]] = {}
    for burst in bursts:
        of = burst["recording_id"], burst["clock_epoch"]
        found.setdefault(of, []).append((int(burst["start_ns"]), int(burst["end_ns"])))
    return {of: within(spans, known.get(of, ())) for of, spans in found.items()}


def length(spans: Iterable[Interval]) -> int:
    """Returns the sum of the lengths of intervals, ns."""
    return sum(end - start for start, end in spans)
