"""Rows of the store's tables as Arrow, with only some of their columns, and texts as texts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa


def schema_of(table: str, names: Iterable[str]) -> pa.Schema:
    """Some columns of TABLE."""
    import pyarrow as pa

    from ...sql.tables import arrow_schema

    return pa.schema([arrow_schema(table).field(name) for name in names])


def table_of(table: str, names: Iterable[str], rows: Iterable[Mapping[str, Any]] = ()) -> pa.Table:
    """ROWS of TABLE with some of its columns."""
    import pyarrow as pa

    schema = schema_of(table, names)
    return pa.Table.from_pylist([{name: row[name] for name in schema.names} for row in rows], schema)


def joined(table: str, names: Iterable[str], parts: Iterable[pa.Table]) -> pa.Table:
    """Rows of TABLE in one, with some of its columns, whatever dictionaries the parts have."""
    import pyarrow as pa

    schema = schema_of(table, names)
    return pa.concat_tables([schema.empty_table(), *(part.select(schema.names).cast(schema) for part in parts)])
