"""A lane while it is recorded: its newest bins in memory, its changes, and the time up to which it is known."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain, zip_longest
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import numpy as np

from ...quality import Quality
from ..model.envelope import Envelope, Interval, fullest, merge_intervals, merged
from ..model.ports import of_port
from ..model.series import Series

if TYPE_CHECKING:
    from collections.abc import Iterable

COLUMNS = ("wire_bytes", "bytes", "packets", "quality")
KEY = ("rack", "host", "interface", "direction", "bin_ns", "link_bps")
NEVER = 2**63 - 1  # ns: nothing changed
STEP_NS = 5 * 10**9  # a recorder states its clock every second; one that is so far back was set
_REMEMBERED = 1200  # changes: two minutes at ten a second


class ChangeLog:
    """The times that changed, by a running count, so that a reader who has the state of a count gets only the rest."""

    def __init__(self) -> None:
        self.count = 0
        self._log: deque[tuple[int, int]] = deque(maxlen=_REMEMBERED)

    def add(self, low_ns: int) -> None:
        """Record a change at LOW_NS or later."""
        self.count += 1
        self._log.append((self.count, low_ns))

    def since(self, count: int) -> int | None:
        """Returns the earliest time that changed after COUNT; None if that is no longer known (anything may have
        changed)."""
        if self._log and count < self._log[0][0] - 1:
            return None
        return min((low for number, low in self._log if number > count), default=NEVER)


@dataclass
class LiveLane:
    """One direction of one interface, at one bin width and link speed. Times are Unix nanoseconds."""

    key: tuple[Any, ...]
    complete_from_ns: int  # everything stored from this time on is in memory
    recordings: dict[str, dict[str, Any]] = field(default_factory=dict)
    spans: dict[tuple[str, int], Interval] = field(default_factory=dict)  # of the bins of each recording and epoch
    series: dict[tuple[str, int], Series] = field(default_factory=dict)  # by recording and epoch
    lost: Series = field(default_factory=lambda: Series(()))  # bins in which packets were lost
    changes: ChangeLog = field(default_factory=ChangeLog)
    bursts: list[dict[str, Any]] = field(default_factory=list)  # ended bursts, by start
    heard_ns: int = 0  # the recorder's clock when it last reported that it runs
    stamps: int = 0  # quality bits of the newest bins

    @cached_property
    def id(self) -> str:
        """An identifier that is the same after a restart, and safe in an address."""
        return "/".join(quote(str(part if part is not None else ""), safe="") for part in self.key)

    @property
    def bin_ns(self) -> int:
        return int(self.key[KEY.index("bin_ns")])

    @property
    def link_bps(self) -> int | None:
        link = self.key[KEY.index("link_bps")]
        return None if link is None else int(link)

    def named(self, name: str) -> str:
        """Returns the rack, host, interface or direction."""
        return str(self.key[KEY.index(name)])

    @property
    def is_port(self) -> bool:
        """Whether the lane is a port of a switch; the host is then the switch."""
        return of_port(self.recordings.values())

    @property
    def edge_ns(self) -> int:
        """The time up to which this lane is known."""
        return max((end for _, end in self.coverage()), default=0)

    @property
    def recording(self) -> bool:
        """Whether a recording of the lane has not ended, according to the store."""
        return self._recorded() is not None

    @property
    def behind_ns(self) -> int:
        """By how much the clock of a recorder that runs was set back, so that what it records now lies before the
        edge; 0 if it was not, or not by more than STEP_NS."""
        behind = self.edge_ns - self.heard_ns if self.recording and self.heard_ns else 0
        return behind if behind > STEP_NS else 0

    def _recorded(self) -> str | None:
        """Returns the recording in progress. The row of a killed recording shows its end only when the next recorder
        writes it, so a later recording takes its place until then."""
        unended = [recording for recording in self.recordings.values() if not recording["ended"]]
        if not unended:
            return None
        newest = max(unended, key=lambda recording: recording["begun_ns"])
        ended_ns = max(
            (
                recording["written_ns"]
                for recording in self.recordings.values()
                if recording["ended"] not in ("", "killed") and recording["begun_ns"] > newest["begun_ns"]
            ),
            default=0,
        )
        return str(newest["recording_id"]) if max(newest["written_ns"], self.heard_ns) > ended_ns else None

    def _known(self) -> dict[tuple[str, int], Interval]:
        """Returns when each recording and epoch was recorded: by its bins, and by its row if it has a single epoch."""
        known = dict(self.spans)
        for name, recording in self.recordings.items():
            if recording["clock_epochs"] == 1 and recording["start_ns"] is not None and recording["end_ns"] is not None:
                start = recording["start_ns"] // self.bin_ns * self.bin_ns
                end = -(-recording["end_ns"] // self.bin_ns) * self.bin_ns
                first, last = known.get((name, 0), (start, end))
                known[name, 0] = min(start, first), max(end, last)
        return known

    def coverage(self) -> list[Interval]:
        """Returns when the lane was recorded, ascending and disjoint; a recording in progress counts until it was last
        heard of. Setting the clock begins a new interval (the view `recorded`)."""
        known, goes_on = self._known(), self._recorded()
        newest = max((key for key in known if key[0] == goes_on), default=None)
        return merge_intervals(
            [(start, max(end, self.heard_ns) if key == newest else end) for key, (start, end) in known.items()]
        )

    @property
    def repeated(self) -> bool:
        """Whether recordings cover the same time, so that only the fullest of simultaneous bins counts."""
        spans = list(self._known().values())
        return sum(end - start for start, end in spans) > sum(end - start for start, end in merge_intervals(spans))

    def touches(self, recording: str, start_ns: int, end_ns: int) -> bool:
        """Returns whether RECORDING covers any of [start_ns, end_ns)."""
        return any(
            start < end_ns and end >= start_ns for (name, _), (start, end) in self._known().items() if name == recording
        )

    def covered(self, start_ns: int, end_ns: int) -> list[Interval]:
        """Returns when the lane was recorded, within [start_ns, end_ns)."""
        return [(max(a, start_ns), min(b, end_ns)) for a, b in self.coverage() if b > start_ns and a < end_ns]

    def changed(self, before: list[Interval], low_ns: int = NEVER) -> None:
        """Record that bins of LOW_NS or later came, or that the coverage differs from BEFORE: a time without packets
        shows only in the coverage."""
        self.changes.add(min(low_ns, _first_difference(before, self.coverage())))

    def add(self, recording: str, epoch: int, columns: dict[str, Any]) -> None:
        """Add bins of a recording and epoch: `ts_ns` and COLUMNS, arrays of one length."""
        times = columns["ts_ns"]
        if not len(times):
            return
        covered = self.coverage()
        first, last = int(times.min()), int(times.max()) + self.bin_ns
        before = self.spans.get((recording, epoch), (first, last))
        self.spans[recording, epoch] = (min(before[0], first), max(before[1], last))
        series = self.series.setdefault((recording, epoch), Series(COLUMNS))
        kept = times >= self.complete_from_ns
        if kept.any():
            series.insert(times[kept], {name: columns[name][kept] for name in COLUMNS})
            self.lost.insert(times[kept & (columns["quality"] & Quality.DROPS != 0)], {})
            self.stamps = int(np.bitwise_or.reduce(columns["quality"][-1000:]))
        self.changed(covered, first)

    def keep_newest(self, rows: int) -> None:
        """Remove the oldest bins, whatever their recording, until there are ROWS of them, or more that begin at one
        time."""
        excess = sum(map(len, self.series.values())) - max(rows, 1)
        if excess <= 0:
            return
        oldest = np.concatenate([series.times[: excess + 1] for series in self.series.values()])
        from_ns = int(np.partition(oldest, excess)[excess])
        for series in (*self.series.values(), self.lost):
            series.keep_from(from_ns)
        self.series = {key: series for key, series in self.series.items() if len(series)}
        self.complete_from_ns = max(self.complete_from_ns, from_ns)

    def rows(self, start_ns: int, end_ns: int) -> Iterable[tuple[tuple[str, int], Series, slice]]:
        """Yields the rows of each recording and epoch in memory within [start_ns, end_ns)."""
        for key, series in self.series.items():
            part = series.between(start_ns, end_ns)
            if part.start < part.stop:
                yield key, series, part

    def envelope(self, start_ns: int, end_ns: int, width_ns: int) -> Envelope:
        """Returns the envelope of [start_ns, end_ns) from memory, in cells of WIDTH_NS, a multiple of the bin."""
        by_epoch: dict[int, list[Envelope]] = {}
        for (_, epoch), series, part in self.rows(start_ns, end_ns):
            wire = series.column("wire_bytes")[part].copy()
            cells = series.times[part] // self.bin_ns
            by_epoch.setdefault(epoch, []).append(
                Envelope(self.bin_ns, self.bin_ns, cells, wire, wire, np.ones_like(wire))
            )
        together = fullest if self.repeated else merged
        found = [together(of).coarsen(width_ns // self.bin_ns) for of in by_epoch.values()]
        nothing = np.zeros(0, np.int64)
        return merged(found or [Envelope(width_ns, self.bin_ns, nothing, nothing, nothing, nothing)])

    def losing(self, start_ns: int, end_ns: int, limit: int | None = None) -> list[Interval]:
        """Returns the times of the bins in memory in which packets were lost, as at most LIMIT intervals."""
        starts = self.lost.times[self.lost.between(start_ns, end_ns)].tolist()
        return merge_intervals([(start, start + self.bin_ns) for start in starts], limit)

    def bursts_between(self, start_ns: int, end_ns: int) -> Sequence[dict[str, Any]]:
        """Returns the bursts in memory that overlap [start_ns, end_ns)."""
        return [burst for burst in self.bursts if burst["end_ns"] > start_ns and burst["start_ns"] < end_ns]


def _first_difference(ours: list[Interval], theirs: list[Interval]) -> int:
    """Returns the earliest time that only one of them has; NEVER if they are equal. Both are ascending and disjoint."""
    edges = zip_longest(chain.from_iterable(ours), chain.from_iterable(theirs), fillvalue=NEVER)
    return next((min(a, b) for a, b in edges if a != b), NEVER)
