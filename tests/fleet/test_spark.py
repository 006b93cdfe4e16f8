"""Spark runs the tasks, on this machine and on a cluster of two executors, and results have the same bytes as without
it."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from fleetlib import DATES, detected, files
from waiting import wait_for

from mburst.errors import MburstError, UsageError
from mburst.fleet.spark import on_spark

if not shutil.which("java"):
    pytest.skip("Spark needs Java: apt-get install openjdk-17-jre-headless", allow_module_level=True)
pytest.importorskip("pyspark")

LIGHT = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"  # half of the processor time of a short job is the JVM's compiler


@pytest.fixture(scope="module")
def scratch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for files that killed processes leave behind."""
    return tmp_path_factory.mktemp("scratch")


@pytest.fixture
def settings(scratch: Path) -> dict[str, str]:
    options = f"{LIGHT} -Djava.io.tmpdir={scratch}"
    return {
        "spark.driver.extraJavaOptions": options,
        "spark.executor.extraJavaOptions": options,
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
    }


@pytest.fixture
def target(fleet_target: Path) -> Path:
    return fleet_target


@pytest.fixture
def done(fleet_by_host: Path) -> dict[str, bytes]:
    """The files of results that were made without Spark, with partitions of single hosts."""
    return files(fleet_by_host)


def test_on_this_machine(target: Path, done: dict[str, bytes], tmp_path: Path, settings: dict[str, str]) -> None:
    found = detected(target, tmp_path, split="host", engine=on_spark("local[2]", settings))
    assert files(tmp_path) == done and len(found.outcomes) == 4
    assert not any(outcome.error for outcome in found.outcomes)
    assert not detected(target, tmp_path, engine=on_spark("local[2]", settings)).outcomes


def descendants(word: bytes) -> list[int]:
    """Returns the processes below this one whose command contains WORD."""
    parents, commands = {}, {}
    for path in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            parents[int(path.name)] = int((path / "stat").read_text().rpartition(")")[2].split()[1])
            commands[int(path.name)] = (path / "cmdline").read_bytes()

    def is_below(pid: int) -> bool:
        return pid in parents and (parents[pid] == os.getpid() or is_below(parents[pid]))

    return [pid for pid, command in commands.items() if word in command and is_below(pid)]


@pytest.fixture
def killed(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[list[int]]:
    """Kills one process of the cluster, whose command contains the given word, as soon as a partition is written."""
    dead: list[int] = []
    ended = threading.Event()

    def is_time() -> bool:
        records = [path for path in tmp_path.glob("partitions/*/*/*.json") if not path.name.endswith(".plan.json")]
        return ended.is_set() or bool(records and descendants(request.param))

    def kill() -> None:
        wait_for(is_time, "a partition", 300)
        for pid in descendants(request.param)[:1]:
            os.kill(pid, signal.SIGKILL)
            dead.append(pid)

    thread = threading.Thread(target=kill)
    thread.start()
    yield dead
    ended.set()
    thread.join()


@pytest.mark.parametrize(
    "killed", [b"CoarseGrainedExecutorBackend", b"pyspark.daemon"], indirect=True, ids=["executor", "worker"]
)
def test_on_a_cluster_with_a_killed_process(
    target: Path, done: dict[str, bytes], tmp_path: Path, killed: list[int], settings: dict[str, str], scratch: Path
) -> None:
    more = {**settings, "spark.executor.memory": "512m"}
    engine = on_spark("local-cluster[2,1,1024]", more, str(scratch))
    found = detected(target, tmp_path, split="host", engine=engine)
    assert files(tmp_path) == done and not any(outcome.error for outcome in found.outcomes)
    assert len(killed) == 1


def test_a_damaged_file_costs_its_partition(
    target: Path, done: dict[str, bytes], tmp_path: Path, settings: dict[str, str]
) -> None:
    shutil.copytree(target, tmp_path / "target")
    path = sorted((tmp_path / "target" / "bins").rglob("rack=r1/*.parquet"))[0]
    path.write_bytes(path.read_bytes()[:-1])
    found = detected(
        tmp_path / "target", tmp_path / "results", DATES[0], split="host", engine=on_spark("local[2]", settings)
    )
    [error] = [outcome.error for outcome in found.outcomes if outcome.error]
    assert path.name in error and "SHA-256" in error and len(found.outcomes) == 4
    left = files(tmp_path / "results")
    assert {key: content for key, content in done.items() if key in left} == left


@pytest.mark.parametrize("master", ["no-such-master", "", "yarns", "spark://", "http://127.0.0.1:7077"])
def test_another_master_is_refused(master: str) -> None:
    with pytest.raises(UsageError, match=f"^unknown Spark master '{master}'$"):
        on_spark(master, {})


@pytest.mark.parametrize(("place", "reason"), [("127.0.0.1:1", "Connection refused"), (":99999", "Port out of range")])
def test_a_connect_server_that_is_not_there_is_one_line(place: str, reason: str, target: Path, tmp_path: Path) -> None:
    with pytest.raises(MburstError, match=f"^Spark at sc://{place}: {reason}"):
        detected(target, tmp_path, engine=on_spark(f"sc://{place}", {}))
