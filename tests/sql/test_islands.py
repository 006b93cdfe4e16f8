"""Wherever SQL joins spans, those that overlap or touch become one, even if several begin and end at the same time, as
bursts on both ports of a bond do. The order of such rows is not defined, and may differ between two windows."""

from __future__ import annotations

import random
import re

import duckdb
import pyarrow as pa
import pytest
from places import ROOT

from mburst.analysis.model.envelope import merge_intervals

SEEDS = range(20)  # a query that relied on an order failed with one seed in five

TIMES = ("sql/partition/contention.sql", "reached", "times", "rack, host, 1 AS hosts, 0 AS bursting")
LOSS = ("sql/queries/fleet/09_loss.sql", "reached", "of_hosts", "rack, host")


def text(path: str) -> str:
    return (ROOT / path).read_text()


def steps(path: str, first: str, last: str, columns: str) -> str:
    """Returns the rows of the step LAST of a query, which reads `heard` from its step FIRST on."""
    [found] = re.findall(rf"^\), ({first} AS \(.*?\), {last} AS \(.*?^\))", text(path), re.MULTILINE | re.DOTALL)
    return f"WITH heard AS (SELECT {columns}, start_ns, end_ns FROM given), {found} SELECT start_ns, end_ns FROM {last}"


def statement(path: str, name: str) -> str:
    """Returns the statement of a file that makes the table, view or macro NAME."""
    made = rf"CREATE (?:OR REPLACE )?(?:TEMP )?(?:VIEW|TABLE|MACRO) {name}\b[^;]*? AS.*?;"
    [found] = re.findall(made, text(path), re.DOTALL)
    return str(found)


RECEIVED = f"""
CREATE VIEW received AS SELECT rack, host AS receiver, start_ns, end_ns FROM given;
{statement("sql/macros.sql", "received_times")}
SELECT start_ns, end_ns FROM received_times('received')"""
COVERAGE = f"""
CREATE MACRO total(number) AS sum(number);
CREATE VIEW recorded AS SELECT *, '' AS interface, 'in' AS direction, 'x' AS recording_id, true AS complete,
    0 AS dropped, 0 AS late FROM given;
{statement("sql/model/coverage.sql", "coverage")}
SELECT start_ns, end_ns FROM coverage"""
KEPT = f"""
CREATE TABLE limits AS
    SELECT 1 AS lane, unnest([0, 20]) AS width_ns, 0 AS gap_ns, 0 AS before_ns, 0 AS after_ns;
CREATE TABLE islands AS
    SELECT 1 AS lane, 0 AS clock_epoch, width_ns, start_ns AS first_ns, end_ns AS last_ns FROM given, limits;
{statement("sql/compaction/spans.sql", "kept")}
SELECT start_ns, end_ns FROM kept"""


def spans(chance: random.Random) -> list[tuple[int, int]]:
    found = []
    for _ in range(1000):
        start = chance.randrange(1000) * 10
        found += [(start, start + chance.choice([3, 5, 9, 12]))] * chance.randint(1, 4)
    return found


@pytest.mark.parametrize(
    "sql",
    [RECEIVED, COVERAGE, KEPT, steps(*TIMES), steps(*LOSS)],
    ids=["received", "coverage", "kept", "contention", "loss"],
)
def test_spans_with_the_same_begin_and_end_are_joined(sql: str) -> None:
    for seed in SEEDS:
        given = spans(random.Random(seed))
        rows = pa.table({"start_ns": [start for start, _ in given], "end_ns": [end for _, end in given]})
        with duckdb.connect() as con:
            con.register("rows", rows)
            con.execute("CREATE TABLE given AS SELECT 'r' AS rack, 'h' AS host, start_ns, end_ns FROM rows")
            assert sorted(con.execute(sql).fetchall()) == merge_intervals(given), seed
