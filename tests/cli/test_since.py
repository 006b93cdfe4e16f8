"""--since and --until: a duration counts back from the newest data of any kind."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from bounded import next_line
from ports import free_port
from storelib import write

from mburst.__main__ import main
from mburst.api import comparing
from mburst.cli.definition import span_of
from mburst.sql import StoreFolder

S = 10**9
T0 = 1_800_000_000 * S
TIMES = {"bins": "ts_ns", "probes": "tx_ns", "queues": "ts_ns"}


def rows(table: str, count: int) -> list[dict[str, Any]]:
    """Writes one row a second from T0 on."""
    more = {"probes": {"app_send_ns": 0, "rx_ns": 1000, "app_recv_ns": 2000}, "queues": {"window_start_ns": -1000}}
    shifts = {TIMES[table]: 0, **more.get(table, {})}
    return [{name: T0 + n * S + shift for name, shift in shifts.items()} for n in range(count)]


def span(store: StoreFolder, since: str | None = None, until: str | None = None) -> tuple[int | None, int | None]:
    return span_of(store, argparse.Namespace(rack=None, since=since, until=until))


@pytest.mark.parametrize("tables", [["bins"], ["probes"], ["queues"], ["bins", "probes"], ["bins", "queues"]])
def test_durations_count_back_from_the_newest_data_of_any_kind(tables: list[str], tmp_path: Path) -> None:
    store = StoreFolder.create(tmp_path / "s")
    for count, table in enumerate(tables, 10):
        write(store, table, *rows(table, count))
    newest = T0 + (9 + len(tables) - 1) * S
    assert span(store, "3s", "1s") == (newest - 3 * S, newest - S)


def test_a_duration_in_an_empty_store_leaves_nothing_out(tmp_path: Path) -> None:
    store = StoreFolder.create(tmp_path / "s")
    assert span(store, "10m") == (None, None) and span(store, "2020-09-13T12:26:40") == (16 * 10**8 * S, None)


def test_a_report_of_probes_alone_applies_since(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(StoreFolder.create(tmp_path / "s"), "probes", *rows("probes", 60))
    sent = []
    for name, words in (("all", []), ("some", ["--since", "10s"])):
        assert main(["report", str(tmp_path / "s"), *words, "-o", str(tmp_path / name)]) == 0
        [facts] = (tmp_path / name).glob("*.json")
        sent.append(json.loads(facts.read_text())["paths"][0]["sent"])
    assert sent == [60, 11]


@pytest.mark.parametrize("words", ["bursts", "report -o page", "export -o trace", "investigate", "what-if --link 40G"])
def test_a_begin_in_the_future_is_refused(
    words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It would be served without any row, for years."""
    monkeypatch.chdir(tmp_path)
    write(StoreFolder.create(tmp_path / "s"), "bins", *rows("bins", 3))
    verb, *more = words.split()
    assert main([verb, "s", *more, "--since", "2090-01-01"]) == 2
    assert "--since 2090-01-01 00:00:00 UTC is in the future (" in capsys.readouterr().err


def test_metrics_from_a_time_in_the_future_are_served(tmp_path: Path) -> None:
    """`mburst run` would not start a part again that refused it, as with a clock that is behind at boot."""
    StoreFolder.create(tmp_path / "s")
    words = ["metrics", str(tmp_path / "s"), "--listen", f"127.0.0.1:{free_port()}", "--since", "2090-01-01"]
    process = subprocess.Popen(
        [sys.executable, "-m", "mburst", *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert next_line(process).startswith("metrics of ")
    process.terminate()
    _, said = process.communicate(timeout=60)
    stated = "mburst: --since 2090-01-01 00:00:00 UTC is in the future: nothing counts before it\n"
    assert (process.returncode, said) == (0, stated)


def test_data_of_a_clock_that_is_ahead_are_not_in_the_future(tmp_path: Path) -> None:
    store = StoreFolder.create(tmp_path / "s")
    write(store, "bins", {"ts_ns": 2 * T0})
    assert span(store, "2050-01-01")[0]


def test_all_durations_of_a_comparison_count_back_from_one_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The store grows while the first side is read."""
    store, read = StoreFolder.create(tmp_path / "s"), comparing._read
    write(store, "probes", *rows("probes", 60))

    def growing(*given: Any) -> Any:
        found = read(*given)
        write(store, "probes", *rows("probes", 75)[60:])
        return found

    monkeypatch.setattr(comparing, "_read", growing)
    path = str(store.path)
    assert main(["compare", path, path, "--a", "until=10s", "--b", "since=10s", "--b", "until=1s", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["a"]["end_ns"] // S, found["b"]["start_ns"] // S) == (T0 // S + 48, T0 // S + 49)
