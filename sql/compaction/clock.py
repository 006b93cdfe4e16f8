"""Whether the clock is believed, before what it says is old is removed.

A store that is compacted again and again notes when. A clock that is far from that was set wrong, or the store was left
alone for so long: which of them is not known. It is believed once it has gone on from there for a day, so that there is
a day to set it right."""

from __future__ import annotations

import json
import os
import time
from dataclasses import dataclass, replace
from pathlib import Path

from ...units import NS_PER_DAY
from .. import disk
from ..format.filenames import REPLACED

NOTE = "clock"  # in the folder of what is replaced
FAR_NS = 32 * NS_PER_DAY  # a month, so that calls once a month are near each other


@dataclass(frozen=True)
class NotedClock:
    """`believed_ns`: when the store was compacted last; None: never. `doubted_ns`: since when it is another time."""

    believed_ns: int | None = None
    doubted_ns: int | None = None

    def at(self, now_ns: int) -> NotedClock:
        """What is to be noted where the clock is at NOW_NS. It is believed unless it is doubted then."""
        if self.believed_ns is None or abs(now_ns - self.believed_ns) <= FAR_NS:
            return NotedClock(now_ns)
        if self.doubted_ns is None or not self.doubted_ns <= now_ns <= self.doubted_ns + FAR_NS:
            return replace(self, doubted_ns=now_ns)
        return NotedClock(now_ns) if now_ns - self.doubted_ns >= NS_PER_DAY else self

    @property
    def doubts_until_ns(self) -> int | None:
        """Until when nothing is removed by age. None: the clock is believed, or behind, so that nothing seems old."""
        if self.doubted_ns is None or self.believed_ns is None or self.doubted_ns < self.believed_ns:
            return None
        return self.doubted_ns + NS_PER_DAY


def doubt(noted: NotedClock) -> str:
    """A sentence on a clock that is not believed."""
    went, last, until = map(_utc, (noted.doubted_ns, noted.believed_ns, noted.doubts_until_ns))
    return (
        f"the clock has gone from {last}, when the store was compacted last, to {went}: nothing is removed by age "
        f"before {until} (set the clock if it is wrong)"
    )


def _utc(ns: int | None) -> str:
    return time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime((ns or 0) // 10**9))


def look(store: Path, notes: bool) -> NotedClock:
    """What is known of the clock now, which is written down where it NOTES that. Raises MburstError."""
    path = store / REPLACED / NOTE
    with disk.failing_as_one_line(path, "write" if notes else "read"):
        noted = _read(path).at(time.time_ns())
        if notes:
            disk.write_durably(path, json.dumps(vars(noted)) + "\n")
    return noted


def _read(path: Path) -> NotedClock:
    """Raises OSError."""
    try:
        file = disk.open_regular(path)
    except FileNotFoundError:
        return NotedClock()
    try:
        found = json.loads(disk.read_from(file, 0))
        times = [found["believed_ns"], found["doubted_ns"]]
    except (ValueError, KeyError, TypeError, RecursionError):
        return NotedClock()
    finally:
        os.close(file)
    return NotedClock(*(at if type(at) is int and 0 <= at < 2**63 else None for at in times))
