"""SQL that is parsed once can be run by any connection, and by several at the same time."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import duckdb

from mburst.sql import named, parsed, views

TEXT = "CREATE TABLE t AS SELECT unnest(range(3)) AS a; CREATE MACRO twice(a) AS 2 * a; SELECT sum(twice(a)) FROM t;"


def test_each_text_is_parsed_once() -> None:
    """This holds for every caller and connection."""

    class Refusing:
        def extract_statements(self, text: str) -> Any:
            raise AssertionError(text)

    first = duckdb.connect()
    statements = parsed.parsed(first, TEXT)
    first.close()
    assert [parsed.parsed(Refusing(), TEXT)] == [statements]  # type: ignore[arg-type]
    with views.in_memory() as con:
        named.prepare(con, "bursts")
    kept = len(parsed._statements)
    with views.in_memory() as con:
        assert con.execute(named.prepare(con, "bursts")).fetchall() == []
    assert len(parsed._statements) == kept


def test_connections_share_parsed_statements() -> None:
    def ask(_: int) -> Any:
        with duckdb.connect() as con:
            *steps, last = parsed.parsed(con, TEXT)
            for step in steps:
                con.execute(step)
            return con.execute(last).fetchall()

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(ask, range(24))) == [[(6,)]] * 24


def test_parsed_queries_of_users_are_not_kept() -> None:
    with views.in_memory() as con:
        kept = len(parsed._statements)
        named.prepare(con, "SELECT 42 AS number_of_a_user")
    assert len(parsed._statements) == kept
