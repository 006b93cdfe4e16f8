"""Writes docs/trino.sql, the tables of a fleet's results for Trino: make docs. tests/house/test_docs.py compares it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from mburst.analysis.bursts.find import BurstDefinition
from mburst.analysis.partition.detect import detect
from mburst.fleet.plan import PartitionPlan
from mburst.fleet.results import PartitionName
from mburst.fleet.task import tables_of
from mburst.units import NS_PER_DAY

if TYPE_CHECKING:
    import pyarrow as pa

PAGE = Path(__file__).parent / "trino.sql"
RESULTS = "s3://fleet/results"  # as in docs/fleet.md
ABOUT = f"""\
-- The tables of a fleet's results, for Trino's Hive connector (docs/fleet.md). Put your place of results for
-- {RESULTS}, and your catalog for `hive`. `make docs` writes this file.

CREATE SCHEMA IF NOT EXISTS hive.mburst;
"""
KINDS = {"string": "VARCHAR", "int64": "BIGINT", "int32": "INTEGER", "double": "DOUBLE", "bool": "BOOLEAN"}
PLACE = ("date", "rack")  # of rows: folders have them, and files do not


def kind(of: pa.DataType) -> str:
    """Trino's type for one of Arrow's."""
    import pyarrow as pa

    if pa.types.is_list(of):
        return f"ARRAY({kind(of.value_type)})"
    if pa.types.is_struct(of):
        return f"ROW({', '.join(f'{field.name} {kind(field.type)}' for field in of)})"
    return KINDS[str(of)]


def statements(table: str, schema: pa.Schema) -> str:
    """What makes a table, and lists its folders."""
    columns = [f"{field.name} {kind(field.type)}" for field in schema if field.name not in PLACE]
    columns += [f"{name} VARCHAR" for name in PLACE]
    listed = ",\n    ".join(columns)
    place = f"external_location = '{RESULTS}/{table}', partitioned_by = ARRAY['{PLACE[0]}', '{PLACE[1]}']"
    return f"""
CREATE TABLE hive.mburst.{table} (
    {listed}
) WITH (format = 'PARQUET', {place});
CALL hive.system.sync_partition_metadata('mburst', '{table}', 'FULL');
"""


def written() -> str:
    """The file, of what a day without rows has."""
    day = PartitionPlan(PartitionName("1970-01-01", "", None), BurstDefinition(), 0, NS_PER_DAY, ())
    found = detect({}, since_ns=day.since_ns, until_ns=day.until_ns)
    tables = tables_of(day, found, with_ports=True)
    return ABOUT + "".join(statements(table, rows.schema) for table, rows in tables.items())


if __name__ == "__main__":
    PAGE.write_text(written(), encoding="utf-8")
