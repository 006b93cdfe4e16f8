"""The named queries return what their comments say, and the command line prints it."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from storelib import sealed_files, write

from mburst.__main__ import main
from mburst.errors import UsageError
from mburst.sql import StoreFolder, names, text
from mburst.sql.named import FOLDER, about

MS = 1_000_000
T0 = 1_700_000_000_000_000_000
Ask = Callable[..., tuple[int, str, str]]


@pytest.fixture
def ask(capsys: pytest.CaptureFixture[str]) -> Ask:
    def run(*words: Any) -> tuple[int, str, str]:
        code = main([str(word) for word in words])
        out, err = capsys.readouterr()
        return code, out, err

    return run


@pytest.fixture
def store(tmp_path: Path) -> StoreFolder:
    """A store of 10 ms at 1 Gb/s in bins of 100 µs, of which three have packets; two senders and `other`."""
    store = StoreFolder.create(tmp_path / "store")
    write(
        store,
        "recordings",
        {
            "bin_ns": MS // 10,
            "start_ns": T0 + 5,
            "end_ns": T0 + 10 * MS - 1,
            "packets": 30,
            "bytes": 20_000,
            "wire_bytes": 20_700,
            "quality": 33,
            "dropped": 3,
        },
    )
    write(
        store,
        "bins",
        *(
            {"ts_ns": T0 + at * MS // 10, "wire_bytes": wire, "bytes": wire - 100, "packets": 10, "quality": quality}
            for at, wire, quality in ((3, 12_500, 1), (7, 6_300, 32), (15, 1_900, 1))
        ),
    )
    write(
        store,
        "sources",
        *(
            {
                "ts_ns": T0 + at * MS,
                "source": source,
                "bytes": count,
                "packets": 1,
                "members": members,
                "first_ns": T0 + at * MS + 1,
                "last_ns": T0 + at * MS + 9,
            }
            for at, source, count, members in (
                (0, "a", 10_000, 1),
                (1, "a", 5_000, 1),
                (0, "b", 4_000, 1),
                (0, "other", 500, 7),
                (1, "other", 500, 9),
            )
        ),
    )
    return store


def answer(store: StoreFolder, name: str) -> list[dict[str, Any]]:
    result = store.connect().execute(text(name))
    return [dict(zip([column[0] for column in result.description], row, strict=True)) for row in result.fetchall()]


def test_every_query_runs_on_an_empty_store_and_has_a_description(tmp_path: Path) -> None:
    store = StoreFolder.create(tmp_path)
    assert names() == sorted(path.stem for path in FOLDER.glob("*.sql"))
    for name in names():
        assert answer(store, name) == []
        assert re.fullmatch(r"[A-Z].{20,}[^.]\.", about(name))
    with pytest.raises(UsageError, match="unknown query 'nope'") as caught:
        text("nope")
    assert "senders" in caught.value.hint


def test_recordings(store: StoreFolder) -> None:
    (run,) = answer(store, "recordings")
    assert run["utilization"] == pytest.approx(20_700 * 8 / 0.009999994 / 1e9)
    assert (run["quality"], run["dropped"], run["complete"]) == (["hw", "drops"], 3, True)
    assert str(run["start"]).startswith("2023-11-14 22:13:20")


def test_recordings_whose_clock_stepped(store: StoreFolder) -> None:
    """The time between the stamps of two clock epochs was not recorded."""
    for epoch, begun, wire in ((0, 5 * 10**9, 25_000), (1, T0, 100_000)):
        times = (begun, begun + 9 * MS)
        bins = [{"ts_ns": at, "clock_epoch": epoch, "recording_id": "stepped", "wire_bytes": wire} for at in times]
        write(store, "bins", *bins)
    span = {"start_ns": 5 * 10**9, "end_ns": T0 + 9 * MS, "clock_epochs": 2}
    write(store, "recordings", {"recording_id": "stepped", "wire_bytes": 250_000, "bin_ns": MS, **span})
    for seconds, utilization in ((0.02, 0.1), (0.01, 0.04)):  # the second, once the bins of epoch 1 are damaged
        run = next(row for row in answer(store, "recordings") if row["recording_id"] == "stepped")
        assert (run["seconds"], run["utilization"]) == (seconds, utilization)
        next(path for path in sealed_files(store, "bins") if f".{T0}-" in path.name).write_bytes(b"damaged")


def test_recordings_that_have_not_begun(tmp_path: Path) -> None:
    store = StoreFolder.create(tmp_path)
    write(store, "recordings", {"complete": False, "link_bps": None})
    (run,) = answer(store, "recordings")
    assert (run["start"], run["seconds"], run["utilization"], run["complete"]) == (None, None, None, False)


def test_senders(store: StoreFolder) -> None:
    found = answer(store, "senders")
    assert [(row["source"], row["bytes"], row["packets"], row["members"]) for row in found] == [
        ("a", 15_000, 2, 1),
        ("b", 4_000, 1, 1),
        ("other", 1_000, 2, 9),
    ]
    assert [row["share"] for row in found] == [0.75, 0.2, 0.05]
    assert (found[0]["first_ns"], found[0]["last_ns"]) == (T0 + 1, T0 + MS + 9)


def test_utilization(store: StoreFolder) -> None:
    assert [
        (row["start_ns"], row["utilization"], row["bytes"], row["packets"], row["quality"])
        for row in answer(store, "utilization")
    ] == [
        (T0, pytest.approx(18_800 / 125_000), 18_600, 20, ["hw", "drops"]),
        (T0 + MS, pytest.approx(1_900 / 125_000), 1_800, 10, ["hw"]),
    ]


@pytest.mark.parametrize(
    ("bin_ns", "span_ns"), [(MS // 3, MS), (400_000, 1_200_000), (700_000, 1_400_000), (2 * MS, 2 * MS)]
)
def test_utilization_is_computed_from_whole_bins(tmp_path: Path, bin_ns: int, span_ns: int) -> None:
    """A port that is half full all the time is half full in each row."""
    span_ns = span_ns // bin_ns * bin_ns + (bin_ns if span_ns % bin_ns else 0)
    store = StoreFolder.create(tmp_path / "even")
    start = T0 // (span_ns * 7) * span_ns * 7
    write(store, "recordings", {"bin_ns": bin_ns, "start_ns": start, "end_ns": start + 20 * span_ns - 1})
    bins = range(start, start + 20 * span_ns, bin_ns)
    write(store, "bins", *({"bin_ns": bin_ns, "ts_ns": ns, "wire_bytes": bin_ns // 16} for ns in bins))
    found = answer(store, "utilization")
    assert [row["start_ns"] for row in found] == list(range(start, start + 20 * span_ns, span_ns))
    assert all(row["utilization"] == pytest.approx(0.5, rel=1e-4) for row in found)


def test_distribution(store: StoreFolder) -> None:
    """Of 100 bins one is full (12,500 bytes in 100 µs at 1 Gb/s), one is half full, one has 15 %, and 97 are empty."""
    assert [(row["from_utilization"], row["bins"], row["share_of_time"]) for row in answer(store, "distribution")] == [
        (0.0, 97, 0.97),
        (0.1, 1, 0.01),
        (0.5, 1, 0.01),
        (1.0, 1, 0.01),
    ]


# --- mburst sql -----------------------------------------------------------------------------------------------------


def test_without_a_query_the_names_are_listed(ask: Ask, store: StoreFolder) -> None:
    code, out, err = ask("sql", store.path)
    assert (code, err) == (0, "")
    assert all(re.search(rf"^{name} +{re.escape(about(name))}$", out, re.MULTILINE) for name in names())


def test_a_name_a_select_or_several_statements_are_run(ask: Ask, store: StoreFolder) -> None:
    assert ask("sql", store.path, "senders")[1].splitlines()[1].split()[3:6] == ["a", "15000", "2"]
    assert ask("sql", store.path, "SELECT sum(bytes) AS n FROM bins") == (0, "    n\n20400\n", "")
    assert ask("sql", store.path, "SET VARIABLE x = 7; SELECT getvariable('x') AS x") == (0, "x\n7\n", "")


def test_formats(ask: Ask, store: StoreFolder) -> None:
    values = "NULL AS nothing, 1.5 AS d, [1, 2] AS l, 'a,b\"' AS t"
    query = f"SELECT source, bytes, {values} FROM sources ORDER BY bytes DESC LIMIT 2"
    wanted = [
        {"source": "a", "bytes": count, "nothing": None, "d": 1.5, "l": [1, 2], "t": 'a,b"'}
        for count in (10_000, 5_000)
    ]
    assert json.loads(ask("sql", store.path, query, "--json")[1]) == wanted
    rows = list(csv.DictReader(io.StringIO(ask("sql", store.path, query, "--csv")[1])))
    assert [(row["source"], row["bytes"], row["nothing"], row["l"], row["t"]) for row in rows] == [
        ("a", "10000", "", "[1, 2]", 'a,b"'),
        ("a", "5000", "", "[1, 2]", 'a,b"'),
    ]
    table = ask("sql", store.path, query)[1].splitlines()
    assert table[1:] == ['a       10000  -        1.5  1, 2  a,b"', 'a        5000  -        1.5  1, 2  a,b"']


def test_a_result_without_rows(ask: Ask, store: StoreFolder) -> None:
    query = "SELECT ts_ns, bytes FROM bins WHERE false"
    assert ask("sql", store.path, query) == (0, "ts_ns  bytes\n", "")
    assert ask("sql", store.path, query, "--csv") == (0, "ts_ns,bytes\n", "")
    assert json.loads(ask("sql", store.path, query, "--json")[1]) == []


def test_many_rows_are_printed_in_pieces(ask: Ask, store: StoreFolder) -> None:
    lines = ask("sql", store.path, "SELECT i, i * 1000 AS k FROM range(25000) AS t(i)")[1].splitlines()
    assert len(lines) == 25_001 and lines[-1].split() == ["24999", "24999000"]


@pytest.mark.parametrize(
    ("query", "code", "words"),
    [
        ("SELEC 1", 1, "syntax error"),
        ("SELECT * FROM bin", 1, 'Did you mean "bins"'),
        ("SELECT colour FROM bins", 1, "colour"),
        ("SELECT 'a'::INTEGER", 1, "Could not convert"),
        ("SELECT error('no such luck')", 1, "no such luck"),
        ("nope", 2, "unknown query 'nope'"),
        ("", 2, "the query is empty"),
        ("-- nothing", 2, "the query is empty"),
        ("COPY bins TO 'x.csv'", 2, "COPY is not allowed"),
        ("EXPORT DATABASE 'x'", 2, "EXPORT is not allowed"),
        ("ATTACH 'x.db'", 2, "ATTACH is not allowed"),
        ("SELECT 1; INSTALL spatial", 2, "LOAD is not allowed"),
    ],
)
def test_failures_are_one_line(
    ask: Ask, store: StoreFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, query: str, code: int, words: str
) -> None:
    monkeypatch.chdir(tmp_path)
    got, out, err = ask("sql", store.path, query)
    assert (got, out) == (code, "") and words in err and err.count("\n") == 1 and err.startswith("mburst: ")
    assert [path.name for path in tmp_path.iterdir()] == ["store"]


def test_a_missing_store_is_one_line(ask: Ask, tmp_path: Path) -> None:
    for verb in ("sql", "bursts"):
        code, out, err = ask(verb, tmp_path / "none")
        assert (code, out) == (1, "") and "not an mburst store" in err and err.count("\n") == 1
