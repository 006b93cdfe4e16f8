"""What a compaction needs of the bins of a day, in one pass over them: one-second sums, the fullest window of several
widths in each second, and where bins and windows are full.

A hash table of every millisecond of a day costs ten times as much as the rest of a compaction, and one of every second
twice as much as this. Bins are stored nearly in order of time, so sums of runs are enough."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from .. import tables

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

    from ._seconds import Seconds

CHUNK = 1 << 17  # rows: what is summed up at once stays in the cache
ALWAYS = {"bytes": np.int64, "wire_bytes": np.int64, "packets": np.uint32, "quality": np.uint16}
KEYS = ("recording_id", "host", "rack", "interface", "direction", "clock_epoch", "ts_ns")
_SUMMED = [
    column for column in tables.columns("steps") if column.name in {of.name for of in tables.columns("bins")} - {*KEYS}
]
RARE = tuple(column.name for column in _SUMMED if column.name not in ALWAYS)  # counters that are 0 or NULL in most bins
BITS = tuple(column.name for column in _SUMMED if column.type == "USMALLINT")  # joined by `or`; others are added up
DROPS = 32  # of quality: sql/schema/quality.sql
MS_NS = 10**6
NEVER = 2**63 - 1

Array = np.ndarray[Any, Any]
Epoch = tuple[int, int]  # lane, clock epoch


class NotInOrder(Exception):
    """A bin came a second or more after a later one."""


class DaySums(NamedTuple):
    """For each second of the recordings in lanes with a bin in day_bins: lane, clock_epoch, ts_ns (its start),
    first_ns, last_ns, bins, losing_bins, the sums of ALWAYS and RARE (NULL if no bin has a value), peak_bytes, and the
    most wire bytes in a window that begins at a multiple of its width: of_1ms, of_10ms, of_100ms. Also the islands of
    limits.sql: lane, clock_epoch, width_ns, first_ns, last_ns."""

    seconds: pa.Table
    islands: pa.Table


class FullLimit(NamedTuple):
    full_bytes: int = NEVER
    gap_ns: int = 0


Limits = Mapping[int, Mapping[int, FullLimit]]  # by lane and width_ns


def sum_up(connection: duckdb.DuckDBPyConnection) -> DaySums:
    """Sum up the bins of the recordings in `lanes`, with full ones as `limits` defines them: everything for the view
    day_bins, and only the islands for the adjacent days (view `beside`)."""
    import pyarrow as pa

    limits: dict[int, dict[int, FullLimit]] = defaultdict(dict)
    for lane, width_ns, *limit in connection.execute(
        "SELECT lane, width_ns, full_bytes, gap_ns FROM limits ORDER BY ALL"
    ).fetchall():
        limits[lane][width_ns] = FullLimit(*limit)
    found = [_pass(connection, "day_bins", limits, _rare(connection))]
    if limits:
        found.append(_pass(connection, "beside", limits, dict.fromkeys(RARE, "null")))
    return DaySums(found[0].seconds, pa.concat_tables(of.islands for of in found))


def _rare(connection: duckdb.DuckDBPyConnection) -> dict[str, str]:
    """How to get each of RARE: all bins have 0 ("zero") or NULL ("null"), or it has to be read ("read")."""
    asked = ", ".join(f"max({name}), count({name}) = count(*)" for name in RARE)
    [found] = connection.execute(f"SELECT {asked} FROM day_bins").fetchall()
    of = dict(zip(RARE, zip(found[::2], found[1::2], strict=True), strict=True))
    return {
        name: "null" if most is None else "zero" if most == 0 and is_full else "read"
        for name, (most, is_full) in of.items()
    }


def _pass(connection: duckdb.DuckDBPyConnection, view: str, limits: Limits, rare: Mapping[str, str]) -> DaySums:
    counters = [name for name, value in rare.items() if value == "read"]
    ids, lanes = zip(*connection.execute("SELECT recording_id, lane FROM lanes").fetchall() or [("", -1)], strict=True)
    connection.execute("SET VARIABLE lane_ids = ?", [list(ids)])
    bins = (  # a join would change their order
        "SELECT list_position(getvariable('lane_ids'), recording_id) AS place, clock_epoch, ts_ns, "
        f"{', '.join([*ALWAYS, *counters])} FROM {view}"
    )
    for order in ("", " ORDER BY ts_ns"):
        reader = connection.sql(bins + order).to_arrow_reader(CHUNK)
        try:
            epochs = _summed(_ahead(reader), np.array([-1, *lanes]), limits, counters)
            return _ended(epochs, limits, rare)
        except NotInOrder:
            del reader
    raise AssertionError("sorted bins are in order")


def _ahead(reader: pa.RecordBatchReader) -> Iterator[pa.RecordBatch]:
    """The batches of READER, each read while the one before is summed up."""
    with ThreadPoolExecutor(1) as pool:
        coming = pool.submit(next, reader, None)
        while (batch := coming.result()) is not None:
            coming = pool.submit(next, reader, None)
            yield batch


def _summed(
    batches: Iterable[pa.RecordBatch], lanes: Array, limits: Limits, counters: list[str]
) -> dict[Epoch, Seconds]:
    epochs: dict[Epoch, Seconds] = {}
    for batch in batches:
        keys = _keys(lanes, _values(batch.column("place")), batch.column("clock_epoch").to_numpy())
        times = batch.column("ts_ns").to_numpy()
        columns = [_values(batch.column(name)).astype(kind, copy=False) for name, kind in ALWAYS.items()]
        counted = [(_values(batch.column(name)).astype(np.int64), _known(batch.column(name))) for name in counters]
        is_one = len(keys) == 1
        for key in np.unique(keys):
            if key < 0:  # the recording is not thinned
                continue
            epoch = int(key) >> 16, int(key) & 0xFFFF
            if epoch not in epochs:
                epochs[epoch] = _opened(limits.get(epoch[0], {}), counters)
            mine = slice(None) if is_one else keys == key
            of_counters = [(values[mine], None if known is None else known[mine]) for values, known in counted]
            byte_counts, wire_bytes, packets, quality = (values[mine] for values in columns)
            if not epochs[epoch].add(times[mine], byte_counts, wire_bytes, packets, quality, of_counters):
                raise NotInOrder
    return epochs


def _opened(limits: Mapping[int, FullLimit], counters: list[str]) -> Seconds:
    from ._seconds import Seconds

    widths = [(width_ns // MS_NS, *limit) for width_ns, limit in limits.items() if width_ns]
    return Seconds([name in BITS for name in counters], DROPS, *limits.get(0, FullLimit()), widths)


def _ended(epochs: dict[Epoch, Seconds], limits: Limits, rare: Mapping[str, str]) -> DaySums:
    """The results, taken out of EPOCHS, which are as large."""
    import pyarrow as pa

    seconds, islands = [_columns((0, 0), np.empty((0, _width(rare)), np.int64), rare)], [_islands((0, 0), {})]
    for epoch in sorted(epochs):
        rows, full, wide = epochs.pop(epoch).end()
        widths = [width_ns for width_ns in limits.get(epoch[0], {}) if width_ns]
        seconds.append(_columns(epoch, np.frombuffer(rows, np.int64).reshape(-1, _width(rare)), rare))
        islands.append(_islands(epoch, dict(zip([0, *widths], [full, *wide], strict=True))))
    return DaySums(pa.concat_tables(seconds), pa.concat_tables(islands))


def _width(rare: Mapping[str, str]) -> int:
    """How many numbers a second has."""
    from ._seconds import FIELDS

    return len(FIELDS) + 2 * [*rare.values()].count("read")


def _columns(epoch: Epoch, rows: Array, rare: Mapping[str, str]) -> pa.Table:
    """The seconds of an epoch, with the values of RARE for counters that were not read."""
    import pyarrow as pa

    from ._seconds import FIELDS

    columns = {**_of(epoch, len(rows)), **{name: pa.array(rows[:, place]) for place, name in enumerate(FIELDS)}}
    nulls, zeros = pa.nulls(len(rows), pa.int64()), pa.array(np.zeros(len(rows), np.int64))
    place = len(FIELDS)
    for name, value in rare.items():
        if value == "read":
            columns[name] = pa.array(rows[:, place], pa.int64(), mask=rows[:, place + 1] == 0)
            place += 2
        else:
            columns[name] = nulls if value == "null" else zeros
    return pa.table(columns)


def _islands(epoch: Epoch, found: Mapping[int, bytes]) -> pa.Table:
    """The islands of an epoch, from FOUND by width."""
    import pyarrow as pa

    rows = {width_ns: np.frombuffer(of, np.int64).reshape(-1, 2) for width_ns, of in found.items()}
    every = np.concatenate([np.empty((0, 2), np.int64), *rows.values()])
    widths = np.repeat(np.array([*rows], np.int64), [len(of) for of in rows.values()])
    return pa.table({**_of(epoch, len(every)), "width_ns": widths, "first_ns": every[:, 0], "last_ns": every[:, 1]})


def _of(epoch: Epoch, length: int) -> dict[str, Any]:
    import pyarrow as pa

    lane, number = epoch
    return {
        "lane": pa.array(np.full(length, lane, np.int32)),
        "clock_epoch": pa.array(np.full(length, number, np.uint16)),
    }


def _keys(lanes: Array, places: Array, epochs: Array) -> Array:
    """For each bin, its lane and clock epoch in one number; a single number if it is the same for all."""
    if places.min() == places.max() and epochs.min() == epochs.max():
        places, epochs = places[:1], epochs[:1]
    found: Array = lanes[places] << 16 | epochs
    return found


def _values(column: pa.Array) -> Array:
    """The numbers of COLUMN, 0 for NULL."""
    numbers: Array = (column.fill_null(0) if column.null_count else column).to_numpy()
    return numbers


def _known(column: pa.Array) -> Array | None:
    """Which rows of COLUMN have a value; None: all of them."""
    known: Array | None = column.is_valid().to_numpy(zero_copy_only=False) if column.null_count else None
    return known
