"""Rows of the store's tables as Arrow, with only some of their columns, and without dictionaries for texts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa


def schema_of(table: str, names: Iterable[str]) -> pa.Schema:
    """Returns the schema of some columns of TABLE."""
    import pyarrow as pa

    from ...sql.tables import arrow_schema

    return pa.schema([arrow_schema(table).field(name) for name in names])


def table_of(table: str, names: Iterable[str], rows: Iterable[Mapping[str, Any]] = ()) -> pa.Table:
    """Returns ROWS of TABLE with some of its columns."""
    import pyarrow as pa

    schema = schema_of(table, names)
    return pa.Table.from_pylist([{name: row[name] for name in schema.names} for row in rows], schema)


def joined(table: str, names: Iterable[str], parts: Iterable[pa.Table]) -> pa.Table:
    """Returns PARTS, rows of TABLE, as one table with some of its columns, whatever dictionaries the parts have."""
    import pyarrow as pa

    schema = schema_of(table, names)
    return pa.concat_tables([schema.empty_table(), *(part.select(schema.names).cast(schema) for part in parts)])
