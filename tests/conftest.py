"""Set-up that all tests share."""

from __future__ import annotations

import gc
import os
import signal

import pytest

from mburst.process import python
from mburst.sql import disk

pytest_plugins = [
    "bounded",
    "forked_commands",
    "livelab",
    "netlab",
    "profiles",
    "s3lib",
    "selection",
    "skips",
    "untouched",
]

# gRPC's fork handlers now and then end a forked child by SIGABRT, without a message, in a process where gRPC has
# threads (in a fork of pyspark, say, whose Popen has a preexec_fn). Nothing here uses gRPC in a fork.
os.environ["GRPC_ENABLE_FORK_SUPPORT"] = "0"

python.one_thread_for_products()

# A shell ignores SIGINT in programs that it starts in the background, and nohup ignores SIGHUP. All programs that tests
# start would inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


# Garbage collection took a twentieth of all processor time.
gc.set_threshold(20_000, 50, 100)


def pytest_collection_finish() -> None:
    """Exclude the collected tests, which live to the end, from garbage collection."""
    gc.collect()
    gc.freeze()


def pytest_unconfigure() -> None:
    """Let Python free the objects at the end: otherwise DuckDB's binding prints some forty lines about leaks."""
    gc.unfreeze()


@pytest.fixture(autouse=True)
def unhurried_disk(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep writers in the process of a test, and in commands forked for it, from reporting a slow disk: the report is
    about the machine, and would mix with the lines that the test expects on standard error. tests/sql/test_syncing.py
    tests these reports, and tests/faults/test_power.py reads them."""
    if request.path.name not in ("test_syncing.py", "test_power.py"):
        monkeypatch.setattr(disk, "SYNC_S", 60.0)
