"""The demo: whose files it touches, and how it judges what was found."""

from __future__ import annotations

import argparse
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from places import ROOT

from mburst.cli import demo
from mburst.errors import MburstError
from mburst.simulate import Case, Scenario, simulate


@pytest.fixture(scope="module")
def case() -> Case:
    return simulate(Scenario(rounds=3, senders=4, bytes_per_sender=10_000, period_ns=50_000_000))


def bursts_of(case: Case) -> list[dict[str, Any]]:
    """What a detector with bins of 1 ms would say of a case."""
    return [
        {
            "start_ns": int(row["t_first_ns"]) // 10**6 * 10**6,
            "end_ns": -(-int(row["t_last_ns"]) // 10**6) * 10**6,
            "fan_in": 4,
            "direction": "in",
        }
        for row in case.rounds
    ]


def test_all_rounds_found(case: Case) -> None:
    said = demo.verdict(case, bursts_of(case))
    assert said[0] == "Found 3 of 3 rounds, and 0 bursts besides."
    assert re.fullmatch(r"They start within \d+ µs and end within \d+ µs of the truth\.", said[1])
    assert said[2] == "Fan-in: 4 senders at once, of 4 simulated."


def test_what_is_missing_and_what_is_too_much_is_said(case: Case) -> None:
    bursts = bursts_of(case)
    bursts[0]["fan_in"] = 3
    bursts[1]["end_ns"] += 4_000_000
    bursts.append(bursts[2] | {"direction": "out"})
    said = demo.verdict(case, bursts)
    assert said[0] == "Found 2 of 3 rounds, and 1 bursts besides."
    assert said[2] == "Fan-in: 3 to 4 senders at once, of 4 simulated."
    assert demo.verdict(case, []) == ["Found 0 of 3 rounds, and 0 bursts besides."]


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_an_earlier_demo_is_replaced_and_nothing_else(tmp_path: Path) -> None:
    folder = tmp_path / "demo"
    with demo.own(folder):
        write(folder / "cache.pcap", "old")
        write(folder / "store" / "bins" / "hot" / "a", "old")
    write(folder / "notes.txt", "mine")
    with demo.own(folder):
        assert sorted(path.name for path in folder.iterdir()) == ["notes.txt"]
        write(folder / "cache.pcap", "new")
    assert (folder / "cache.pcap").read_text() == "new"
    assert (folder / "notes.txt").read_text() == "mine"


def test_a_demo_that_failed_can_be_repeated(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt), demo.own(tmp_path):
        write(tmp_path / "store" / "half", "")
        raise KeyboardInterrupt
    with demo.own(tmp_path):
        assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("foreign", ["store/eth0", "truth.csv", "report/sub/deep.html", "made-by-mburst-demo.txt/x"])
def test_files_of_others_stop_it_before_anything_is_touched(foreign: str, tmp_path: Path) -> None:
    if not foreign.startswith(demo.MANIFEST):
        with demo.own(tmp_path):
            write(tmp_path / "store" / "ours", "ours")
    write(tmp_path / foreign, "mine")
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(MburstError, match=re.escape(foreign)), demo.own(tmp_path):
        pass
    assert sorted(tmp_path.rglob("*")) == before
    assert (tmp_path / foreign).read_text() == "mine"


def test_the_demo_finds_what_it_simulated_and_can_be_repeated(tmp_path: Path) -> None:
    for seed in ("1", "2"):
        command = [sys.executable, "-m", "mburst", "demo", "-o", str(tmp_path / "a demo"), "--seed", seed]
        done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=300)
        assert (done.returncode, done.stderr) == (0, "")
        assert f"seed {seed}" in done.stdout
        assert "Found 40 of 40 rounds, and 0 bursts besides." in done.stdout
        assert "Fan-in: 40 senders at once, of 40 simulated." in done.stdout
    [page] = (tmp_path / "a demo" / "report").glob("*.html")
    assert f"The report: {page}" in done.stdout
    follow = [line.strip() for line in done.stdout.split("Go on with:")[1].splitlines() if "mburst" in line]
    for words in map(shlex.split, follow[:2]):
        again = subprocess.run([sys.executable, "-m", *words], capture_output=True, text=True, cwd=ROOT, timeout=300)
        assert (again.returncode, again.stderr) == (0, "")
        assert again.stdout


def test_a_verb_that_fails_stops_it_with_its_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[list[str]] = []

    def failing(words: list[str]) -> int:
        ran.append(words)
        return 3 if words[0] == "import" else 0

    monkeypatch.setattr("mburst.__main__.main", failing)
    assert demo.run(argparse.Namespace(output=str(tmp_path), seed=1)) == 3
    assert [words[0] for words in ran] == ["record", "import"]


def test_a_wrong_seed_touches_nothing(tmp_path: Path) -> None:
    with pytest.raises(MburstError):
        demo.run(argparse.Namespace(output=str(tmp_path), seed=-1))
    assert list(tmp_path.iterdir()) == []
