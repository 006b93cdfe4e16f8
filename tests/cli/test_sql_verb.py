"""mburst sql prints each value of an answer whole, in each format."""

from __future__ import annotations

import csv
import io
import json
import re
from pathlib import Path
from typing import Any

import pytest

from mburst.__main__ import main
from mburst.sql import StoreFolder


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return StoreFolder.create(tmp_path_factory.mktemp("asked") / "store").path


def asked(store: Path, query: str, form: str, capsys: pytest.CaptureFixture[str]) -> str:
    assert main(["sql", str(store), query, form]) == 0
    return capsys.readouterr().out


def refuse(constant: str) -> Any:
    raise AssertionError(f"not JSON: {constant}")


NS = 1_795_228_464_011_544_286


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (f"make_timestamp_ns({NS})", "2026-11-21 02:34:24.011544286"),
        (f"make_timestamp_ns({NS})::TIMESTAMPTZ", "2026-11-21 02:34:24.011544+00"),
        ("INTERVAL 14 MONTHS", "1 year 2 months"),
        (f"[make_timestamp_ns({NS})]", "['2026-11-21 02:34:24.011544286']"),
        (r"'a\xFF'::BLOB", r"a\xFF"),
    ],
)
def test_times_are_whole_and_utc(
    value: str, text: str, store: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TZ", "America/St_Johns")
    query = f"SET VARIABLE n = 7; SELECT {value} AS v, getvariable('n') + i AS i FROM range(3) t(i) ORDER BY 2 DESC"
    assert json.loads(asked(store, query, "--json", capsys)) == [{"v": text, "i": i} for i in (9, 8, 7)]
    rows = list(csv.reader(io.StringIO(asked(store, query, "--csv", capsys))))
    assert rows == [["v", "i"], *([text, str(i)] for i in (9, 8, 7))]


def test_json_has_no_numbers_that_json_lacks(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    query = (
        "SELECT 'nan'::DOUBLE AS a, 'inf'::DOUBLE AS b, [1, '-inf'::DOUBLE] AS c, {'x': 'nan'::FLOAT} AS d, 1.5 AS e"
    )
    found = json.loads(asked(store, query, "--json", capsys), parse_constant=refuse)
    assert found == [{"a": None, "b": None, "c": [1, None], "d": {"x": None}, "e": 1.5}]
    [_, row] = csv.reader(io.StringIO(asked(store, query, "--csv", capsys)))
    assert (json.loads(row[2]), json.loads(row[3])) == ([1, None], {"x": None})


def test_json_keeps_columns_of_the_same_name(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    query = "SELECT 1 AS a, 2 AS a_1, 3 AS a, now() - now() AS a, 5 AS b"
    assert json.loads(asked(store, query, "--json", capsys)) == [
        {"a": 1, "a_1": 2, "a_2": 3, "a_3": "00:00:00", "b": 5}
    ]


LISTS = (
    "SELECT true AS a, {'x': 1, 'y': NULL, 'z': 'b'} AS b, [1, NULL, 3, 4] AS c, [{'n': 1}, {'n': 2}, {'n': NULL}] AS d"
)


def test_tables_have_the_values_of_lists_and_structs(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    many = "range(5) AS e, [{'s': 'h1', 'share': 1 / 3}, {'s': 'h2', 'share': 0.5}] AS f"
    assert main(["sql", str(store), f"{LISTS}, {many}"]) == 0
    [heads, cells] = [re.split(" {2,}", line) for line in capsys.readouterr().out.splitlines()]
    assert dict(zip(heads, cells, strict=True)) == {
        "a": "true",
        "b": "1 b",
        "c": "1, -, 3, 4",
        "d": "1, 2, -",
        "e": "0, 1, 2, and 2 more",
        "f": "h1 0.333333, h2 0.5",
    }


def test_csv_has_lists_structs_and_booleans_as_json(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    [_, row] = csv.reader(io.StringIO(asked(store, LISTS, "--csv", capsys)))
    found = [json.loads(value) for value in row]
    assert found == [True, {"x": 1, "y": None, "z": "b"}, [1, None, 3, 4], [{"n": 1}, {"n": 2}, {"n": None}]]


def test_maps_keep_their_keys(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    query = "SELECT MAP {1: 4, 2: NULL} AS a, MAP {'nan'::DOUBLE: 1} AS b, MAP {DATE '2026-11-29': 2} AS c"
    found = json.loads(asked(store, query, "--json", capsys))
    assert found == [{"a": {"1": 4, "2": None}, "b": {"nan": 1}, "c": {"2026-11-29": 2}}]
    [_, row] = csv.reader(io.StringIO(asked(store, query, "--csv", capsys)))
    assert list(map(json.loads, row)) == list(found[0].values())
    assert main(["sql", str(store), query]) == 0
    assert capsys.readouterr().out.splitlines()[1] == "{1=4, 2=NULL}  {nan=1}  {2026-11-29=2}"


@pytest.mark.parametrize("query", ["SELECT 1; SELECT 2", "EXPLAIN SELECT 1; SET VARIABLE n = 7"])
def test_several_queries_are_refused(store: Path, capsys: pytest.CaptureFixture[str], query: str) -> None:
    """Only the last one was answered."""
    assert main(["sql", str(store), query]) == 2
    out, err = capsys.readouterr()
    assert out == "" and err.startswith("mburst: several queries, of which only the last would be answered")
