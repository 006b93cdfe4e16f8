"""One feed at a time: whose points a column of a queue or port is taken from.

The first that sends is taken; what another sends of the same column meanwhile would be counted twice, or would be of
another counter, and is refused. Where the first has been silent for SILENT_NS and SILENT of its intervals, the other
follows: a sender that was started again, or has another address.
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
NOBODY = -1


class FeedOfCells:
    """Which feed each cell has. `refused` counts points of others, by (device, reason)."""

    def __init__(self) -> None:
        self.refused: Counter[tuple[str, str]] = Counter()
        self._feed = np.zeros(0, np.int32)  # by cell
        self._ts_ns = np.zeros(0, np.int64)  # its newest point; 0: none yet
        self._usual_ns = np.zeros(0, np.int64)  # its interval: at most twice that of the batch before; 0: not known
        self._cell_of = np.zeros(0, np.int32)  # by series

    def take(self, points: Points, series: Sequence[MetricSeries], feeds: Sequence[SeriesFeed]) -> tuple[Any, Any]:
        """Of points that are sorted by series and time: (which are taken, which of these are the first after another
        feed of their column)."""
        self._know(series)
        cell = self._cell_of[points.series]
        if (new := self._feed[cell] == NOBODY).any():  # the first point decides
            self._feed[cell[new][::-1]] = points.feed[new][::-1]
        of_others = self._feed[cell] != points.feed
        taken, follows = np.ones(len(points), bool), np.zeros(len(points), bool)
        contested = np.isin(cell, cell[of_others]) if of_others.any() else of_others
        if contested.any():
            self._settle(points, cell, np.flatnonzero(contested), taken, follows, feeds)
        if not contested.all():
            self._go_on(points.ts_ns[~contested], cell[~contested])
        return taken, follows

    def _go_on(self, ts_ns: Ints, cell: Any) -> None:
        """Take in points of cells that have one feed, which are neighbours."""
        last = np.flatnonzero(np.append(cell[1:] != cell[:-1], True))
        has_before = (last > 0) & (cell[last - 1] == cell[last])
        cell, newest = cell[last], ts_ns[last]
        before, usual = np.where(has_before, ts_ns[last - 1], self._ts_ns[cell]), self._usual_ns[cell]
        interval = np.where(usual, np.minimum(2 * usual, newest - before), newest - before)
        self._usual_ns[cell] = np.where((before > 0) & (newest > before), interval, usual)
        self._ts_ns[cell] = np.maximum(self._ts_ns[cell], newest)

    def _settle(
        self, points: Points, cell: Any, contested: Any, taken: Any, follows: Any, feeds: Sequence[SeriesFeed]
    ) -> None:
        """Decide point by point, in the order of time."""
        order = contested[np.lexsort((points.ts_ns[contested], cell[contested]))]
        for k in order.tolist():
            at, feed, ts_ns = int(cell[k]), int(points.feed[k]), int(points.ts_ns[k])
            now, last_ns, usual_ns = int(self._feed[at]), int(self._ts_ns[at]), int(self._usual_ns[at])
            if feed != now:
                if ts_ns - last_ns <= max(SILENT_NS, SILENT * usual_ns):
                    taken[k] = False
                    self.refused[_refusal(feeds[feed], feeds[now])] += 1
                    continue
                follows[k] = True
                self._feed[at] = feed
            interval = ts_ns - last_ns
            if last_ns and interval > 0:
                self._usual_ns[at] = min(2 * usual_ns, interval) if usual_ns else interval
            self._ts_ns[at] = max(last_ns, ts_ns)

    def _know(self, series: Sequence[MetricSeries]) -> None:
        new = [one.cell for one in series[len(self._cell_of) :]]
        self._cell_of = np.concatenate([self._cell_of, np.array(new, np.int32)])
        missing = max(0, max(new, default=-1) + 1 - len(self._feed))
        self._feed = np.concatenate([self._feed, np.full(missing, NOBODY, np.int32)])
        self._ts_ns, self._usual_ns = (
            np.concatenate([of, np.zeros(missing, np.int64)]) for of in (self._ts_ns, self._usual_ns)
        )


def _refusal(other: SeriesFeed, taken: SeriesFeed) -> tuple[str, str]:
    """The device, and what is said of a second feed."""
    return taken.series.device, (
        f"{other.metric} from {other.sender}: also sent as {taken.metric} from {taken.sender}, which is taken"
    )
