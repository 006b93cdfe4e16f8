"""Answers as Arrow tables, with the meaning and unit of each column in the metadata of its field."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ..sql import described
from ..sql.damage import DamagedFile, damaged_files, readable

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa


def of_query(
    con: duckdb.DuckDBPyConnection,
    query: str | duckdb.Statement,
    parameters: Mapping[str, Any] | None = None,
    *,
    about: str = "",
) -> pa.Table:
    """Returns the rows of QUERY. ABOUT is the table, view or named query that the columns belong to. Raises
    MburstError."""
    with readable(con):
        relation = con.sql(query, params=dict(parameters)) if parameters else con.sql(query)
        table = relation.to_arrow_table()
    return finished(table, damaged_files(con), about)


def of_rows(rows: Sequence[Mapping[str, Any]], damaged: Iterable[DamagedFile], about: str = "") -> pa.Table:
    """Returns rows of one shape as a table."""
    import pyarrow as pa

    return finished(pa.Table.from_pylist(list(rows)), damaged, about)


def finished(table: pa.Table, damaged: Iterable[DamagedFile], about: str = "") -> pa.Table:
    """Returns TABLE with whole numbers as int64 and with its metadata: `unit` and `about` of each field, as far as they
    are known, and `damaged_files` of the table, JSON as on the command line."""
    import pyarrow as pa

    meanings = described.about(about) if about else {}
    columns = [_whole(column) for column in table.columns]
    fields = [
        _field(name, column, meanings.get(name, "")) for name, column in zip(table.column_names, columns, strict=True)
    ]
    missing = json.dumps([file.facts() for file in damaged], ensure_ascii=False)
    return pa.Table.from_arrays(columns, schema=pa.schema(fields, {"damaged_files": missing}))


def _field(name: str, column: pa.ChunkedArray, about: str) -> pa.Field:
    import pyarrow as pa

    known = {"unit": described.unit(name), "about": about}
    return pa.field(name, column.type, metadata={key: value for key, value in known.items() if value})


def _whole(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Returns a column of 128-bit integers as int64, if its values fit. DuckDB's sums of integers have 128 bits; they
    would be decimals in Arrow and objects in pandas."""
    import pyarrow as pa

    if not pa.types.is_decimal(column.type) or column.type.scale:
        return column
    try:
        return column.cast(pa.int64())
    except pa.ArrowInvalid:
        return column
