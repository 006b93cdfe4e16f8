"""Rows in the order of their time, kept in memory while they are new: the source of the live view."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

Column = NDArray[np.int64]
_FIRST_ROWS = 1024


class Series:
    """Rows of integers, ascending by a time that no two rows share. A row replaces the one of the same time, so that
    inserting rows twice changes nothing. Appending is cheap; a row out of order costs as much as the rows behind it."""

    def __init__(self, columns: Sequence[str]) -> None:
        self._names = list(columns)
        self._rows = np.empty((1 + len(self._names), _FIRST_ROWS), np.int64)
        self._begin = self._end = 0

    def __len__(self) -> int:
        return self._end - self._begin

    @property
    def times(self) -> Column:
        """The times of the rows: a view, valid until the next change."""
        return self._rows[0, self._begin : self._end]

    def column(self, name: str) -> Column:
        """Returns the values of a column: a view, valid until the next change."""
        return self._rows[1 + self._names.index(name), self._begin : self._end]

    def between(self, start_ns: int, end_ns: int) -> slice:
        """Returns the rows in [start_ns, end_ns)."""
        low, high = np.searchsorted(self.times, [start_ns, end_ns])
        return slice(int(low), int(high))

    def insert(self, times: Column, columns: Mapping[str, Column]) -> None:
        """Insert rows at their places. Of rows of the same time, the last one counts."""
        if not len(times):
            return
        given = np.vstack([times, *(columns[name] for name in self._names)])
        if len(times) > 1 and (np.diff(times) <= 0).any():
            given = _last_of_each(given)
        at = int(np.searchsorted(self.times, given[0, 0]))
        if at < len(self):
            places = np.searchsorted(self.times, given[0])
            if places[-1] < len(self) and (self.times[places] == given[0]).all():
                self._rows[:, self._begin + places] = given  # all of these times are there already
                return
            behind = self._rows[:, self._begin + at : self._end]
            given = _last_of_each(np.concatenate([behind, given], axis=1))
        self._end = self._begin + at
        self._reserve(given.shape[1])
        self._rows[:, self._end : self._end + given.shape[1]] = given
        self._end += given.shape[1]

    def _reserve(self, more: int) -> None:
        if self._end + more <= self._rows.shape[1]:
            return
        kept = self._rows[:, self._begin : self._end]
        self._rows = np.empty((kept.shape[0], max(_FIRST_ROWS, 2 * (kept.shape[1] + more))), np.int64)
        self._rows[:, : kept.shape[1]] = kept
        self._begin, self._end = 0, kept.shape[1]

    def keep_newest(self, rows: int) -> bool:
        """Remove all but the newest ROWS rows. Returns whether any were removed."""
        if len(self) <= rows:
            return False
        self._begin = self._end - rows
        return True

    def keep_from(self, time_ns: int) -> None:
        """Remove the rows before TIME_NS."""
        self._begin += int(np.searchsorted(self.times, time_ns))


def _last_of_each(rows: NDArray[np.int64]) -> NDArray[np.int64]:
    """Returns rows (columns of the array) by time, the last one of each time."""
    rows = rows[:, np.argsort(rows[0], kind="stable")]
    return rows[:, np.append(np.diff(rows[0]) > 0, True)]
