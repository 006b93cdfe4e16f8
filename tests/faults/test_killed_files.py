"""`mburst record FILE` is interrupted in any way, then called again: the store always has the contents of the file."""

from __future__ import annotations

import random
import shutil
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from subprocess import Popen

import pytest
from captured import PACKETS, write_capture
from faultlib import assert_sealed, assert_totals, chance, end, hot_bytes, kill, started, succeed, sums, times
from outcomes import outcome
from waiting import wait_for

from mburst.sql import StoreFolder


@dataclass
class Case:
    """A capture file, what a store has of it, and how large the hot log of its bins becomes."""

    file: Path
    sums: dict[str, list]
    hot_bytes: int


def arguments(case_file: Path, store: Path) -> list[object]:
    return ["record", case_file, "-o", store, "--link", "10G", "--bin", "10us"]


@pytest.fixture(scope="module")
def case(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Case]:
    folder = tmp_path_factory.mktemp("case")
    file, largest = write_capture(folder / "a.pcap"), 0
    with started(*arguments(file, folder / "store")) as process:

        def has_ended() -> bool:
            nonlocal largest
            largest = max(largest, hot_bytes(folder / "store", "bins"))
            return process.poll() is not None

        wait_for(has_ended, "the end of the recording")
        assert end(process)[0] == 0
    expected = sums(folder / "store")
    assert [rows[0][0] for rows in expected.values()] == [PACKETS] * 3 and largest > 0
    yield Case(file, expected, largest)
    shutil.rmtree(folder)


def at_a_moment(process: Popen[str], case: Case, store: Path, moment: random.Random) -> None:
    """Returns when a random share of the file is recorded, or all of it."""
    part = moment.random() * case.hot_bytes
    wait_for(lambda: hot_bytes(store, "bins") > part or process.poll() is not None, "progress")


def check(case: Case, store: Path) -> None:
    """Records again without a fault, and checks that the sums are those of the file."""
    done = succeed(*arguments(case.file, store))
    assert sums(store) == case.sums, done
    assert_totals(store)
    assert_sealed(store)


def test_killed_then_again(case: Case, tmp_path: Path) -> None:
    alive = 0
    for attempt in times(2):
        store = tmp_path / str(attempt)
        for cut in range(1 + attempt % 2):
            with started(*arguments(case.file, store)) as process:
                at_a_moment(process, case, store, chance("file", attempt, cut))
                alive += kill(process)
        check(case, store)
        shutil.rmtree(store)
    outcome("record FILE, killed, again", f"{len(times(2))} stores, {alive} kills alive", "sums of the file in all")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupted_then_again(case: Case, tmp_path: Path, number: int) -> None:
    interrupted = 0
    for attempt in times(1):
        store = tmp_path / str(attempt)
        with started(*arguments(case.file, store)) as process:
            at_a_moment(process, case, store, chance("interrupted", attempt))
            interrupted += end(process, number)[0] != 0
        check(case, store)
        shutil.rmtree(store)
    outcome(
        f"record FILE, {signal.Signals(number).name}, again",
        f"{len(times(1))} stores, {interrupted} in the middle",
        "sums of the file in all",
    )


def test_two_of_one_file_at_once(case: Case, tmp_path: Path) -> None:
    for attempt in times(1):
        store = StoreFolder.create(tmp_path / str(attempt)).path
        with started(*arguments(case.file, store)) as one, started(*arguments(case.file, store)) as two:
            codes = [end(process) for process in (one, two)]
        assert 0 in [code for code, _ in codes], codes
        assert sums(store) == case.sums, codes
        check(case, store)
        shutil.rmtree(store)
    outcome("record FILE, two at once", f"{len(times(1))} stores", "sums of the file in all")


def test_one_of_two_is_killed(case: Case, tmp_path: Path) -> None:
    for attempt in times(1):
        store = StoreFolder.create(tmp_path / str(attempt)).path
        with started(*arguments(case.file, store)) as one, started(*arguments(case.file, store)) as two:
            at_a_moment(one, case, store, chance("one of two", attempt))
            kill(one)
            end(two)
        check(case, store)
        shutil.rmtree(store)
    outcome("record FILE, two at once, one killed", f"{len(times(1))} stores", "sums of the file in all")
