"""A command that runs until a signal ends with exit code 1 and one line if its store was moved, removed or replaced.
`mburst run` restarts it with the store that exists then."""

from __future__ import annotations

import shutil
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from bounded import next_line
from ports import free_port
from processes import has_open
from waiting import beside, wait_for

from mburst.errors import MburstError
from mburst.sql import StoreFolder
from mburst.sql.disk import failing_as_one_line
from mburst.sql.place import LOOK_S

MBURST = [sys.executable, "-m", "mburst"]


def moved(store: Path) -> None:
    store.rename(store.with_name("moved"))


def removed(store: Path) -> None:
    while store.exists():  # files may be created in it meanwhile
        shutil.rmtree(store, ignore_errors=True)


def replaced(store: Path) -> None:
    removed(store)
    StoreFolder.create(store)


VERBS = {
    "metrics": ["metrics", "STORE", "--listen", "127.0.0.1:0"],
    "live": ["live", "STORE", "--listen", "127.0.0.1:0"],
    "probe": ["probe", "127.0.0.1:9", "-o", "STORE", "--timeout", "100ms"],
    "collect": ["collect", "switches.yaml", "-o", "STORE"],
    "ship": ["ship", "STORE", "fleet", "--every", "1h"],
    "compact": ["compact", "STORE", "--every", "1h", "--size", "1T"],
    "schedule": ["schedule", "--loop", "mburst.toml"],
    "names": ["names", "STORE", "hosts", "--every", "1h"],
}
BEGUN = {"ship": "fleet/mburst.json", "probe": "store/hot/probes/*", "schedule": "reports/.*"}
FAULTS: list[Callable[[Path], None]] = [moved, replaced]
CASES = [*((verb, fault) for verb in VERBS for fault in FAULTS), ("metrics", removed), ("probe", removed)]


@pytest.mark.parametrize(("verb", "fault"), CASES, ids=[f"{verb} {fault.__name__}" for verb, fault in CASES])
def test_the_command_ends_and_states_why(verb: str, fault: Callable[[Path], None], tmp_path: Path) -> None:
    store = StoreFolder.create(tmp_path / "store").path
    (tmp_path / "switches.yaml").write_text(
        f"targets:\n  127.0.0.1:{free_port()}:\n    insecure: true\nsubscriptions:\n  q:\n    paths: [/interfaces]\n"
    )
    (tmp_path / "hosts").write_text("10.0.0.1 a\n")
    write_report(tmp_path)
    words = [str(store) if word == "STORE" else word for word in VERBS[verb]]
    process = subprocess.Popen(
        [*MBURST, *words], cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        wait_for(lambda: has_open(process.pid, store), "its look at the store")
        wait_for(lambda: list(tmp_path.glob(BEGUN.get(verb, "store"))), "its first rows")
        fault(store)
        out, error = process.communicate(timeout=30)
    finally:
        process.kill()
        process.wait()
    lines = [line for line in error.splitlines() if str(store) in line]
    assert process.returncode == 1 and len(lines) == 1, error
    assert lines[0].endswith("(the store may have been moved or removed)") and "kept in" not in out


def write_report(folder: Path) -> None:
    (folder / "mburst.toml").write_text(
        f'store = "{folder}/store"\n[[report]]\nname = "daily"\nracks = []\noutput = "{folder}/reports"\n'
    )


def test_a_report_that_cannot_be_written_does_not_end_others(tmp_path: Path) -> None:
    """The folder of the report is a file: that report fails when it is due, and the other reports continue."""
    store = StoreFolder.create(tmp_path / "store").path
    write_report(tmp_path)
    (tmp_path / "file").touch()
    with (tmp_path / "mburst.toml").open("a") as config:
        config.write(f'[[report]]\nname = "other"\nracks = []\noutput = "{tmp_path}/file"\n')
    process = subprocess.Popen(
        [*MBURST, "schedule", "--loop", "mburst.toml"], cwd=tmp_path, stderr=subprocess.PIPE, text=True
    )
    try:
        wait_for(lambda: has_open(process.pid, store) and has_open(process.pid, tmp_path / "reports"), "its look")
        process.terminate()
        _, error = process.communicate(timeout=30)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 0 and "Not a directory (the store" not in error, error


def test_reports_restart_when_their_store_is_created_later(tmp_path: Path) -> None:
    """On a new host, the first recording creates the store. The process cannot read a folder that did not exist when it
    started."""
    write_report(tmp_path)
    process = subprocess.Popen([*MBURST, "schedule", "--loop", "mburst.toml"], cwd=tmp_path, stderr=subprocess.PIPE)
    try:
        assert b"not an mburst store" in next_line(process, process.stderr)
        StoreFolder.create(tmp_path / "store")
        _, error = process.communicate(timeout=30)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 1 and b"store: made since this process began" in error, error


def test_a_failure_while_the_store_is_being_removed_is_explained_by_that(tmp_path: Path) -> None:
    """What is in a folder is removed before the folder: work can fail while the store itself is still there."""
    store = StoreFolder.create(tmp_path / "store")

    def replace(ended: threading.Event) -> None:
        ended.wait(LOOK_S / 2)
        replaced(store.path)

    with pytest.raises(MburstError, match="another folder"), store.place.watched(lambda: None), beside(replace):
        with pytest.raises(MburstError, match="No such file") as failed, failing_as_one_line(store.path, "lock"):
            (store.path / "removed" / "compacting").touch()
        store.place.check_after(failed.value)
        pytest.fail("the failure was taken for another one")


def test_a_failure_for_another_missing_file_is_stated(tmp_path: Path) -> None:
    store = StoreFolder.create(tmp_path / "store")
    with store.place.watched(lambda: None):
        store.place.check_after(FileNotFoundError("names.csv"))


def test_a_store_that_replaced_a_new_one_is_not_removed(tmp_path: Path) -> None:
    """A command that fails removes only the empty store that it created."""
    store = tmp_path / "store"
    refused = pytest.raises(MburstError, match="another folder")
    with refused, StoreFolder.created(store) as made, made.place.watched(lambda: None):
        replaced(store)
    assert StoreFolder.open(tmp_path / "store").is_empty("bins")
