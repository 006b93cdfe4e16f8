"""The fullest window of several widths in each second, from bins in order of time.

A hash table of every millisecond of a day costs ten times as much as all else of a compaction; bins are stored in order
of time, nearly, so that sums of runs do."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

WIDTHS_NS = (1_000_000, 10_000_000, 100_000_000)
SECOND_NS = 10**9
CHUNK = 1 << 20  # rows
_BINS = "SELECT recording_id, clock_epoch, ts_ns, wire_bytes FROM day_bins"  # a join would change their order


class NotInOrder(Exception):
    """A bin came a second or more after a later one."""


def peaks(connection: duckdb.DuckDBPyConnection) -> pa.Table:
    """Of each second of the recordings in lanes that has a bin in day_bins: lane, clock_epoch, ts_ns (its start), and
    for each of WIDTHS_NS the most wire bytes in a window that begins at a multiple of the width: of_1ms, …"""
    lanes = dict(connection.execute("SELECT recording_id, lane FROM lanes").fetchall())
    for order in ("", " ORDER BY ts_ns"):
        reader = connection.sql(_BINS + order).to_arrow_reader(CHUNK)
        try:
            return _table(reader, lanes)
        except NotInOrder:
            del reader
    raise AssertionError("sorted bins are in order")


def _table(batches: Iterable[pa.RecordBatch], lanes: dict[str, int]) -> pa.Table:
    import pyarrow as pa

    epochs: dict[tuple[int, int], _Epoch] = {}
    for batch in batches:
        named = batch.column("recording_id").dictionary_encode()
        numbers = np.array([lanes.get(name, -1) for name in named.dictionary.to_pylist()], np.int64)
        keys = numbers[named.indices.to_numpy()] << 16 | batch.column("clock_epoch").to_numpy()
        times, amounts = batch.column("ts_ns").to_numpy(), batch.column("wire_bytes").to_numpy()
        is_one = keys.min() == keys.max()
        for key in keys[:1] if is_one else np.unique(keys):
            if key < 0:  # it is not thinned
                continue
            mine = slice(None) if is_one else keys == key
            epochs.setdefault((int(key) >> 16, int(key) & 0xFFFF), _Epoch()).add(times[mine], amounts[mine])
    found = {of: epoch.end() for of, epoch in epochs.items()}
    lengths = [len(rows[0]) for rows in found.values()]
    columns = {
        "lane": np.repeat(np.array([lane for lane, _ in found], np.int32), lengths),
        "clock_epoch": np.repeat(np.array([epoch for _, epoch in found], np.uint16), lengths),
    }
    for index, name in enumerate(("ts_ns", "of_1ms", "of_10ms", "of_100ms")):
        columns[name] = _joined([rows[index] for rows in found.values()], np.int64)
    return pa.table(columns)


def _joined(parts: list[np.ndarray[Any, Any]], kind: Any) -> np.ndarray[Any, Any]:
    return np.concatenate(parts) if parts else np.empty(0, kind)


class _Epoch:
    """The bins of a recording's clock epoch, as they come. The newest second is held back: its bins may not be all."""

    def __init__(self) -> None:
        self._times = np.empty(0, np.int64)
        self._bytes = np.empty(0, np.int64)
        self._done_ns = -(2**63)
        self._found: list[tuple[np.ndarray[Any, Any], ...]] = []

    def add(self, times: np.ndarray[Any, Any], wire_bytes: np.ndarray[Any, Any]) -> None:
        """Raises NotInOrder."""
        self._times = np.concatenate([self._times, times])
        self._bytes = np.concatenate([self._bytes, wire_bytes])
        if (self._times[1:] < self._times[:-1]).any():
            order = np.argsort(self._times, kind="stable")
            self._times, self._bytes = self._times[order], self._bytes[order]
        if self._times[0] < self._done_ns:
            raise NotInOrder
        self._take((int(self._times[-1]) // SECOND_NS - 1) * SECOND_NS)

    def _take(self, until_ns: int) -> None:
        count = int(np.searchsorted(self._times, until_ns))
        if count:
            self._found.append(_of_seconds(self._times[:count], self._bytes[:count]))
            self._times, self._bytes = self._times[count:], self._bytes[count:]
            self._done_ns = until_ns

    def end(self) -> list[np.ndarray[Any, Any]]:
        """Seconds, and the peaks of each width in them."""
        self._take(2**63 - 1)
        return [np.concatenate(parts) for parts in zip(*self._found, strict=True)]


def _of_seconds(times: np.ndarray[Any, Any], amounts: np.ndarray[Any, Any]) -> tuple[np.ndarray[Any, Any], ...]:
    """The start of each second that TIMES (sorted) are in, and the largest sum in it of each width."""
    windows, width = times, 1
    found: list[np.ndarray[Any, Any]] = []
    for wider in WIDTHS_NS:
        windows, starts = _runs(windows // (wider // width))
        amounts, width = np.add.reduceat(amounts, starts), wider
        seconds, starts = _runs(windows // (SECOND_NS // width))
        found.append(np.maximum.reduceat(amounts, starts))
    return seconds * SECOND_NS, *found


def _runs(values: np.ndarray[Any, Any]) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """The different ones of VALUES, which are sorted, and where each begins."""
    starts = np.concatenate([[0], np.flatnonzero(values[1:] != values[:-1]) + 1])
    return values[starts], starts
