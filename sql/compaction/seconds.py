"""One-second sums of bins, and the fullest window of several widths in each second, from bins in order of time.

A hash table of every millisecond of a day costs ten times as much as all else of a compaction, and one of every second
twice as much as this; bins are stored in order of time, nearly, so that sums of runs do."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import tables

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

WIDTHS_NS = (1_000_000, 10_000_000, 100_000_000)
SECOND_NS = 10**9
CHUNK = 1 << 17  # rows: what is summed up at once stays in the cache
ALWAYS = ("bytes", "wire_bytes", "packets", "quality")
KEYS = ("recording_id", "host", "rack", "interface", "direction", "clock_epoch", "ts_ns")
_SUMMED = [
    column for column in tables.columns("steps") if column.name in {of.name for of in tables.columns("bins")} - {*KEYS}
]
RARE = tuple(
    column.name for column in _SUMMED if column.name not in ALWAYS
)  # counters that most bins have as 0 or NULL
BITS = tuple(column.name for column in _SUMMED if column.type == "USMALLINT")  # joined by `or`; others are added up
DROPS = 32  # of quality: sql/schema/quality.sql

Columns = dict[str, np.ndarray[Any, Any]]


class NotInOrder(Exception):
    """A bin came a second or more after a later one."""


def seconds(connection: duckdb.DuckDBPyConnection) -> pa.Table:
    """Of each second of the recordings in lanes that has a bin in day_bins: lane, clock_epoch, ts_ns (its start),
    first_ns, last_ns, bins, losing_bins, the sums of ALWAYS and RARE (NULL where no bin has a value), peak_bytes, and
    for each of WIDTHS_NS the most wire bytes in a window that begins at a multiple of the width: of_1ms, …"""
    rare = _rare(connection)
    ids, lanes = zip(*connection.execute("SELECT recording_id, lane FROM lanes").fetchall() or [("", -1)], strict=True)
    connection.execute("SET VARIABLE lane_ids = ?", [list(ids)])
    read = [name for name, value in rare.items() if value == "read"]
    bins = (  # a join would change their order
        "SELECT list_position(getvariable('lane_ids'), recording_id) AS place, clock_epoch, ts_ns, "
        f"{', '.join([*ALWAYS, *read])} FROM day_bins"
    )
    for order in ("", " ORDER BY ts_ns"):
        reader = connection.sql(bins + order).to_arrow_reader(CHUNK)
        try:
            return _table(_ahead(reader), np.array([-1, *lanes]), rare)
        except NotInOrder:
            del reader
    raise AssertionError("sorted bins are in order")


def _rare(connection: duckdb.DuckDBPyConnection) -> dict[str, str]:
    """How each of RARE is had: all bins have 0 ("zero") or NULL ("null"), or it is to be read ("read")."""
    asked = ", ".join(f"max({name}), count({name}) = count(*)" for name in RARE)
    [found] = connection.execute(f"SELECT {asked} FROM day_bins").fetchall()
    of = dict(zip(RARE, zip(found[::2], found[1::2], strict=True), strict=True))
    return {
        name: "null" if most is None else "zero" if most == 0 and is_full else "read"
        for name, (most, is_full) in of.items()
    }


def _ahead(reader: pa.RecordBatchReader) -> Iterator[pa.RecordBatch]:
    """The batches of READER, each read while the one before is summed up."""
    with ThreadPoolExecutor(1) as pool:
        coming = pool.submit(next, reader, None)
        while (batch := coming.result()) is not None:
            coming = pool.submit(next, reader, None)
            yield batch


def _table(batches: Iterable[pa.RecordBatch], lanes: np.ndarray[Any, Any], rare: Mapping[str, str]) -> pa.Table:
    epochs: dict[tuple[int, int], _Epoch] = {}
    for batch in batches:
        keys = _keys(lanes, _values(batch.column("place")), batch.column("clock_epoch").to_numpy())
        columns = {"ts_ns": batch.column("ts_ns").to_numpy()}
        for name in batch.schema.names[3:]:
            columns[name] = _values(batch.column(name))
            if batch.column(name).null_count:
                columns[f"{name} known"] = batch.column(name).is_valid().to_numpy(zero_copy_only=False)
        is_one = len(keys) == 1
        for key in np.unique(keys):
            if key < 0:  # it is not thinned
                continue
            mine = slice(None) if is_one else keys == key
            epoch = epochs.setdefault((int(key) >> 16, int(key) & 0xFFFF), _Epoch())
            epoch.add({name: values[mine] for name, values in columns.items()})
    return _joined({of: epoch.end() for of, epoch in epochs.items()}, rare)


def _keys(
    lanes: np.ndarray[Any, Any], places: np.ndarray[Any, Any], epochs: np.ndarray[Any, Any]
) -> np.ndarray[Any, Any]:
    """Of each bin, its lane and clock epoch in one number; a single one where it is that of all."""
    if places.min() == places.max() and epochs.min() == epochs.max():
        places, epochs = places[:1], epochs[:1]
    found: np.ndarray[Any, Any] = lanes[places] << 16 | epochs
    return found


def _values(column: pa.Array) -> np.ndarray[Any, Any]:
    """The numbers of COLUMN, 0 for NULL."""
    numbers: np.ndarray[Any, Any] = (column.fill_null(0) if column.null_count else column).to_numpy()
    return numbers


def _joined(found: Mapping[tuple[int, int], Columns], rare: Mapping[str, str]) -> pa.Table:
    """The seconds of all epochs, with what RARE says of columns that were not read."""
    import pyarrow as pa

    lengths = [len(of["ts_ns"]) for of in found.values()]
    joined: dict[str, Any] = {
        "lane": pa.array(np.repeat(np.array([lane for lane, _ in found], np.int32), lengths)),
        "clock_epoch": pa.array(np.repeat(np.array([epoch for _, epoch in found], np.uint16), lengths)),
    }
    peaks = ("peak_bytes", *(f"of_{width // 10**6}ms" for width in WIDTHS_NS))
    for name in ("ts_ns", "first_ns", "last_ns", "bins", "losing_bins", *ALWAYS, *RARE, *peaks):
        if rare.get(name) == "null":
            joined[name] = pa.nulls(sum(lengths), pa.int64())
        elif rare.get(name) == "zero":
            joined[name] = pa.array(np.zeros(sum(lengths), np.int64))
        else:
            values = [of[name] for of in found.values()]
            known = [of.get(f"{name} known", np.ones(len(of[name]), np.int64)) > 0 for of in found.values()]
            joined[name] = pa.array(_concatenated(values, np.int64), pa.int64(), mask=~_concatenated(known, np.bool_))
    return pa.table(joined)


def _concatenated(parts: list[np.ndarray[Any, Any]], kind: Any) -> np.ndarray[Any, Any]:
    return np.concatenate(parts) if parts else np.empty(0, kind)


class _Epoch:
    """The bins of a recording's clock epoch, as they come. Sums are added up; of windows the newest second is held
    back: its bins may not be all."""

    def __init__(self) -> None:
        self._times = np.empty(0, np.int64)
        self._bytes = np.empty(0, np.int64)
        self._done_ns = -(2**63)
        self._peaks: list[Columns] = []
        self._sums: list[Columns] = []

    def add(self, columns: Columns) -> None:
        """Bins: ts_ns, and their counters. Raises NotInOrder."""
        if not _in_order(columns["ts_ns"]):
            order = np.argsort(columns["ts_ns"], kind="stable")
            columns = {name: values[order] for name, values in columns.items()}
        self._sums.append(_sums(columns))
        held = self._times[-1:]
        self._times = np.concatenate([self._times, columns["ts_ns"]])
        self._bytes = np.concatenate([self._bytes, columns["wire_bytes"]])
        if held.size and held[0] > columns["ts_ns"][0]:
            order = np.argsort(self._times, kind="stable")
            self._times, self._bytes = self._times[order], self._bytes[order]
        if self._times[0] < self._done_ns:
            raise NotInOrder
        self._take((int(self._times[-1]) // SECOND_NS - 1) * SECOND_NS)

    def _take(self, until_ns: int) -> None:
        count = int(np.searchsorted(self._times, until_ns))
        if count:
            self._peaks.append(_peaks(self._times[:count], self._bytes[:count]))
            self._times, self._bytes = self._times[count:], self._bytes[count:]
            self._done_ns = until_ns

    def end(self) -> Columns:
        """The seconds, their sums, and the peaks of each width in them."""
        self._take(2**63 - 1)
        sums, peaks = (
            {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
            for parts in (_with_known(self._sums), self._peaks)
        )
        order = np.argsort(sums["ts_ns"], kind="stable")
        return _merged({name: values[order] for name, values in sums.items()}) | peaks


def _with_known(parts: list[Columns]) -> list[Columns]:
    """PARTS, each with the columns that any of them has: where no value was NULL, all were known."""
    names = {name for part in parts for name in part}
    return [{name: part.get(name, part["bins"]) for name in names} for part in parts]


def _sums(columns: Columns) -> Columns:
    """The seconds that bins in order of time are in, and what they add up to."""
    times, quality = columns["ts_ns"], columns["quality"]
    of, starts = _seconds(times)
    ends = np.append(starts[1:], len(times))
    found = {"ts_ns": of * SECOND_NS, "first_ns": times[starts], "last_ns": times[ends - 1], "bins": ends - starts}
    losing = (quality & DROPS) != 0
    found["losing_bins"] = np.add.reduceat(losing, starts, dtype=np.int64) if losing.any() else np.zeros_like(starts)
    found["peak_bytes"] = np.maximum.reduceat(columns["wire_bytes"], starts)
    for name, values in columns.items():
        if name in BITS:
            found[name] = np.bitwise_or.reduceat(values, starts).astype(np.int64)
        elif name != "ts_ns":
            found[name] = np.add.reduceat(values.astype(np.int64, copy=False), starts)
    return found


def _seconds(times: np.ndarray[Any, Any]) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """The seconds that TIMES, which are sorted, are in, and where each begins. Where there are fewer seconds than
    times, no time is divided."""
    first, last = int(times[0]) // SECOND_NS, int(times[-1]) // SECOND_NS
    if last - first >= len(times):
        return _runs(times // SECOND_NS)
    every = np.arange(first, last + 1)
    starts = np.searchsorted(times, every[1:] * SECOND_NS)
    starts = np.concatenate([[0], starts])
    is_there = np.append(starts[1:], len(times)) > starts
    return every[is_there], starts[is_there]


def _merged(parts: Columns) -> Columns:
    """Sums of parts of seconds, in order of time, as sums of seconds."""
    _, starts = _runs(parts["ts_ns"])
    by: dict[str, np.ufunc] = {"first_ns": np.minimum, "last_ns": np.maximum, "peak_bytes": np.maximum}
    by |= {"ts_ns": np.minimum} | {name: np.bitwise_or for name in BITS}
    return {name: by.get(name, np.add).reduceat(values, starts) for name, values in parts.items()}


def _peaks(times: np.ndarray[Any, Any], amounts: np.ndarray[Any, Any]) -> Columns:
    """The largest sum of each width in each second that TIMES (sorted) are in."""
    from ._fullest import fullest

    found = fullest(times.data, amounts.data, np.array(WIDTHS_NS).data)
    most = np.frombuffer(found, np.int64).reshape(-1, len(WIDTHS_NS))
    return {f"of_{width // 10**6}ms": most[:, place] for place, width in enumerate(WIDTHS_NS)}


def _in_order(times: np.ndarray[Any, Any]) -> bool:
    return not (times[1:] < times[:-1]).any()


def _runs(values: np.ndarray[Any, Any]) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """The different ones of VALUES, which are sorted, and where each begins."""
    starts = np.concatenate([[0], np.flatnonzero(values[1:] != values[:-1]) + 1])
    return values[starts], starts
