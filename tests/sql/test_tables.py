"""The single definition of the tables, as Arrow and as DuckDB read it."""

from __future__ import annotations

import duckdb
import pyarrow as pa
import pytest

from mburst.sql import described
from mburst.sql.tables import ORDER, arrow_schema, columns, schema_sql

NAMES = sorted(ORDER)


@pytest.mark.parametrize("table", NAMES)
def test_columns_equal_those_that_duckdb_reads(table: str) -> None:
    with duckdb.connect() as connection:
        connection.execute(schema_sql(table))
        found = [
            (name, kind, null == "YES") for name, kind, null, *_ in connection.execute(f"DESCRIBE {table}").fetchall()
        ]
    assert [(column.name, column.type, column.nullable) for column in columns(table)] == found


@pytest.mark.parametrize("table", NAMES)
def test_arrow_types_become_the_same_types_in_duckdb(table: str) -> None:
    with duckdb.connect() as connection:
        connection.register("given", arrow_schema(table).empty_table())
        found = [(name, kind) for name, kind, *_ in connection.execute("DESCRIBE given").fetchall()]
    assert found == [(column.name, column.type) for column in columns(table)]


@pytest.mark.parametrize("table", NAMES)
def test_rows_are_ordered_by_columns_that_exist_and_a_time_at_last(table: str) -> None:
    fields = {field.name: field for field in arrow_schema(table)}
    assert all(name in fields for name in ORDER[table])
    assert fields[ORDER[table][-1]].type == pa.int64() and not fields[ORDER[table][-1]].nullable


@pytest.mark.parametrize("table", NAMES)
def test_each_column_with_a_comment_has_that_meaning(table: str) -> None:
    text = (described.HERE / "schema" / f"{table}.sql").read_text()
    commented = {line.split()[0] for line in text.splitlines() if line.startswith("    ") and " -- " in line}
    assert described.about(table).keys() == commented
