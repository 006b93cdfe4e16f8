"""The questions to a fleet's results, on Trino: over tables as docs/trino.sql makes them, with the answers worked out
row by row. A release of Trino is fetched first: `make test-engines`, and no other run."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from glob import glob
from pathlib import Path
from typing import Any

import duckdb
import fleettables
import pytest
from fleet_oracle import Fleet
from places import ROOT
from questioned import HOSTS, SPANS, answers_of_fleet_ask, documented, real_results, same
from trinolib import Trino, running

from mburst.sql import questions

STATEMENTS = (ROOT / "docs" / "trino.sql").read_text("utf-8")
RESULTS = "s3://fleet/results"


@pytest.fixture(scope="module")
def trino(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Trino]:
    with running(tmp_path_factory.mktemp("trino")) as server:
        yield server


def create(trino: Trino, results: Path) -> None:
    """Make the tables of docs/trino.sql over RESULTS, in place of those that are there."""
    place = trino.files / "results"
    shutil.rmtree(place, ignore_errors=True)
    shutil.copytree(results, place)
    trino.rows("DROP SCHEMA IF EXISTS hive.mburst CASCADE")
    for statement in STATEMENTS.replace(RESULTS, "local:///results").split(";"):
        if statement.strip():
            trino.rows(statement)


def ask(trino: Trino, name: str, span: tuple[int, int], inventory: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    trino.rows(f"CREATE OR REPLACE VIEW asked AS SELECT BIGINT '{span[0]}' AS since_ns, BIGINT '{span[1]}' AS until_ns")
    columns = fleettables.INVENTORY.names
    rows = [[_literal(column, host[column]) for column in columns] for host in inventory]
    listed = ", ".join(f"({', '.join(row)})" for row in rows or [[_literal(column, None) for column in columns]])
    trino.rows(
        f"CREATE OR REPLACE VIEW inventory AS SELECT * FROM (VALUES {listed}) AS listed ({', '.join(columns)}) "
        "WHERE rack IS NOT NULL"
    )
    return trino.rows(questions.text(name))


def _literal(column: str, value: str | int | None) -> str:
    if column.endswith("_ns"):
        return f"CAST({'NULL' if value is None else value} AS BIGINT)"
    return "CAST(NULL AS VARCHAR)" if value is None else "'" + str(value).replace("'", "''") + "'"


@pytest.mark.parametrize("seed", range(2))
def test_an_answer_is_what_the_rows_add_up_to(trino: Trino, tmp_path: Path, seed: int) -> None:
    found, inventory = fleettables.tables(seed, racks=3, bursts=60), HOSTS if seed else []
    fleettables.write(found, tmp_path)
    create(trino, tmp_path)
    for name in questions.names():
        for span in SPANS:
            same(ask(trino, name, span, inventory), getattr(Fleet(found, span, inventory), name.partition("_")[2])())


def test_real_results_by_the_statements_of_the_page(trino: Trino, tmp_path: Path) -> None:
    """Also where there is no switch port, and so no file of their tables: each has the rows and types of its files."""
    results = real_results(tmp_path)
    for table in fleettables.PORTS:
        (results / f"port_{table}").mkdir()
    create(trino, results)
    for table in fleettables.SCHEMAS:
        rows = trino.rows(f"SELECT * FROM {table}")
        files = str(results / table / "*/*/*.parquet")
        if not glob(files):
            assert table.startswith("port_") and not rows
            continue
        reading = f"FROM read_parquet('{files}', hive_partitioning = true, hive_types_autocast = false)"
        assert _sorted(rows) == _sorted(duckdb.sql(reading).fetchall()), table
    for statement in documented():
        trino.rows(statement)
    for name, wanted in answers_of_fleet_ask(results).items():
        same(trino.rows(questions.text(name)), wanted)


def _sorted(rows: list[tuple[Any, ...]]) -> list[str]:
    """ROWS as text, with lists in place of the dicts that DuckDB has in lists."""
    return sorted(repr([[*map(_value, value)] if isinstance(value, list) else value for value in row]) for row in rows)


def _value(value: Any) -> Any:
    return [*value.values()] if isinstance(value, dict) else value
