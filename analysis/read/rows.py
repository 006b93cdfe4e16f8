"""Rows of the store's tables as they are: for readers that keep the newest in memory, and for small results."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from .columns import joined

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

TIMES = {"bins": "ts_ns", "probes": "tx_ns", "queues": "ts_ns", "clock": "ts_ns"}  # time columns


def dicts(con: duckdb.DuckDBPyConnection, query: str, parameters: dict[str, Any]) -> list[dict[str, Any]]:
    """Returns the rows of a small result as dicts by column."""
    cursor = con.execute(query, parameters)
    names = [column[0] for column in cursor.description or ()]
    return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]


def first(con: duckdb.DuckDBPyConnection, query: str, parameters: dict[str, Any]) -> tuple[Any, ...] | None:
    """Returns the first row of a small result, None if it is empty. Unlike fetchone(), it leaves no unfinished
    result."""
    rows: list[tuple[Any, ...]] = con.execute(query, parameters).fetchall()
    return rows[0] if rows else None


def holds(con: duckdb.DuckDBPyConnection, table: str, where: Mapping[str, Any]) -> bool:
    """Whether TABLE has a row with the values WHERE of its columns."""
    equal = "".join(f" AND {name} = ${name}" for name in where)
    return first(con, f"SELECT 1 FROM {table} WHERE true{equal} LIMIT 1", dict(where)) is not None


def newest_bins(con: duckdb.DuckDBPyConnection, since_ns: int) -> list[tuple[str, int, int]]:
    """Returns (recording_id, clock_epoch, ts_ns of the newest bin) of all recordings that have bins of SINCE_NS or
    later."""
    return con.execute(
        "SELECT recording_id, clock_epoch, max(ts_ns) FROM bins WHERE ts_ns >= $1 GROUP BY ALL ORDER BY ALL", [since_ns]
    ).fetchall()


def rows_since(
    con: duckdb.DuckDBPyConnection, table: str, columns: Iterable[str], epoch: tuple[str, int], since_ns: int
) -> pa.Table:
    """Returns COLUMNS of the rows of TABLE, bins or sources, of a recording's clock epoch from SINCE_NS on."""
    found = con.sql(
        f"SELECT {', '.join(columns)} FROM {table} WHERE recording_id = $1 AND clock_epoch = $2 AND ts_ns >= $3",
        params=[*epoch, since_ns],
    )
    return joined(table, columns, [found.to_arrow_table()])


def newest_rows(
    con: duckdb.DuckDBPyConnection, table: str, columns: Iterable[str], since_ns: int, newest_ns: int, limit: int
) -> tuple[pa.Table, int]:
    """Returns COLUMNS of the rows of TABLE from SINCE_NS to NEWEST_NS, or from a later time if there are more than
    about LIMIT; and the start of that time."""
    time = TIMES[table]
    [(count,)] = con.execute(f"SELECT count(*) FROM {table} WHERE {time} >= $1", [since_ns]).fetchall()
    if count > limit:
        since_ns = max(since_ns, newest_ns - (newest_ns - since_ns) * limit // count)
    found = con.sql(f"SELECT {', '.join(columns)} FROM {table} WHERE {time} >= $1", params=[since_ns])
    return found.to_arrow_table(), since_ns
