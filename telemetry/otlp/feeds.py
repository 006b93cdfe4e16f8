"""One feed at a time: from whose points a column of a queue or port is taken.

The first feed that sends is taken. Points of the same column from another feed would be counted twice, or be of another
counter, and are refused. Once the first has been silent for SILENT_NS, for SILENT of its intervals and for PAUSES of
the times between its messages, another one follows: a sender that was restarted, or that has another address.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from .points import Ints, Points
from .series import MetricSeries, SeriesFeed

SILENT_NS = 10**9
SILENT = 3
PAUSES = 2
NOBODY = -1


class FeedOfCells:
    """The feed of each cell. `refused` counts points of other feeds, by (device, reason)."""

    def __init__(self) -> None:
        self.refused: Counter[tuple[str, str]] = Counter()
        self._feed = np.zeros(0, np.int32)  # by cell
        self._ts_ns = np.zeros(0, np.int64)  # the time of its newest point; 0: none yet
        self._usual_ns = np.zeros(0, np.int64)  # its interval: at most twice that of the previous batch; 0: not known
        self._came_ns = np.zeros(0, np.int64)  # when its last message came
        self._pause_ns = np.zeros(0, np.int64)  # between its messages: at least half the previous value
        self._cell_of = np.zeros(0, np.int32)  # by series

    def take(self, points: Points, series: Sequence[MetricSeries], feeds: Sequence[SeriesFeed]) -> tuple[Any, Ints]:
        """For POINTS that are sorted by series and time, returns which are taken, and for each point that is the first
        one after another feed of its column, the time of the newest point of that feed (0 for all others)."""
        self._know(series)
        cell = self._cell_of[points.series]
        if (new := self._feed[cell] == NOBODY).any():  # the first point decides
            self._feed[cell[new][::-1]] = points.feed[new][::-1]
        feed, at = self._feed[cell], np.arange(len(points))  # the feed of each point's cell at its time
        taken, follows = feed == points.feed, np.zeros(len(points), np.int64)
        if not taken.all():
            order = np.lexsort((points.ts_ns, cell))
            cells = cell[order]
            for k in self._silent(points.ts_ns[order], cells, taken[order]):
                first, last = np.searchsorted(cells, (k, k + 1))
                self._settle(points, order[first:last], k, feed, follows)
            taken = feed == points.feed
            pairs = points.feed[~taken].astype(np.int64) * len(feeds) + feed[~taken]
            for pair, number in zip(*np.unique(pairs, return_counts=True), strict=True):
                self.refused[_refusal(feeds[pair // len(feeds)], feeds[pair % len(feeds)])] += int(number)
            at = order[taken[order]]
        if len(at):
            self._go_on(points.ts_ns[at], points.receive_ns[at], cell[at])
        return taken, follows

    def _silent(self, ts_ns: Ints, cell: Any, own: Any) -> list[int]:
        """The cells whose feed was silent for so long that another one may follow. Points are sorted by cell and
        time."""
        first = np.searchsorted(cell, cell)
        before = np.maximum.accumulate(np.where(own, np.arange(len(cell)), -1))
        last_ns = np.maximum(np.where(before >= first, ts_ns[before], 0), self._ts_ns[cell])
        found: list[int] = np.unique(cell[~own & (ts_ns - last_ns > self._patience_ns(cell))]).tolist()
        return found

    def _patience_ns(self, cell: Any) -> Ints:
        """How long the feed of a cell may be silent before another one follows."""
        intervals, pauses = SILENT * self._usual_ns[cell], PAUSES * self._pause_ns[cell]
        found: Ints = np.maximum(SILENT_NS, np.maximum(intervals, pauses))
        return found

    def _settle(self, points: Points, at: Any, cell: int, feed: Any, follows: Any) -> None:
        """Decide about the points of a cell, whose indices in order of time are AT."""
        now, last_ns, patience_ns = int(self._feed[cell]), int(self._ts_ns[cell]), int(self._patience_ns(cell))
        for k in at.tolist():
            other, ts_ns = int(points.feed[k]), int(points.ts_ns[k])
            if other != now and ts_ns - last_ns > patience_ns:
                now, follows[k] = other, last_ns
            feed[k] = now
            if other == now:
                last_ns = max(last_ns, ts_ns)
        self._feed[cell] = now

    def _go_on(self, ts_ns: Ints, receive_ns: Ints, cell: Any) -> None:
        """Remember the newest of the taken points, which are sorted by cell and time."""
        last = np.flatnonzero(np.append(cell[1:] != cell[:-1], True))
        has_before = (last > 0) & (cell[last - 1] == cell[last])
        cell, newest = cell[last], ts_ns[last]
        before, usual = np.where(has_before, ts_ns[last - 1], self._ts_ns[cell]), self._usual_ns[cell]
        interval = np.where(usual, np.minimum(2 * usual, newest - before), newest - before)
        self._usual_ns[cell] = np.where((before > 0) & (newest > before), interval, usual)
        self._ts_ns[cell] = np.maximum(self._ts_ns[cell], newest)
        pause = np.where(self._came_ns[cell] > 0, receive_ns[last] - self._came_ns[cell], 0)
        self._pause_ns[cell], self._came_ns[cell] = np.maximum(self._pause_ns[cell] // 2, pause), receive_ns[last]

    def _know(self, series: Sequence[MetricSeries]) -> None:
        new = [one.cell for one in series[len(self._cell_of) :]]
        self._cell_of = np.concatenate([self._cell_of, np.array(new, np.int32)])
        missing = max(0, max(new, default=-1) + 1 - len(self._feed))
        self._feed = np.concatenate([self._feed, np.full(missing, NOBODY, np.int32)])
        self._ts_ns, self._usual_ns, self._came_ns, self._pause_ns = (
            np.concatenate([of, np.zeros(missing, np.int64)])
            for of in (self._ts_ns, self._usual_ns, self._came_ns, self._pause_ns)
        )


def _refusal(other: SeriesFeed, taken: SeriesFeed) -> tuple[str, str]:
    """The device, and the report about a second feed."""
    return taken.series.device, (
        f"{other.metric} from {other.sender}: also sent as {taken.metric} from {taken.sender}, which is taken"
    )
