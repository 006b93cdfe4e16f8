"""What tests of every room share."""

from __future__ import annotations

import gc
import os
import signal

import pytest

from mburst import python
from mburst.sql import disk

pytest_plugins = ["forked_commands", "livelab", "netlab", "profiles", "s3lib", "selection", "skips", "untouched"]

# Where gRPC has threads, what it does in a fork (of pyspark, say, whose Popen has a preexec_fn) now and then ends the
# child by SIGABRT, without a message. Nothing here uses gRPC in a fork.
os.environ["GRPC_ENABLE_FORK_SUPPORT"] = "0"

python.one_thread_for_products()

# A shell ignores SIGINT in what it starts in the background, nohup ignores SIGHUP, and all programs of the tests would
# inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


# Searches for cyclic garbage took a twentieth of all processor time.
gc.set_threshold(20_000, 50, 100)


def pytest_collection_finish() -> None:
    """Look no more at what has been collected, which lives to the end, whenever garbage is searched for."""
    gc.collect()
    gc.freeze()


def pytest_unconfigure() -> None:
    """Python frees it at the end: DuckDB's binding complains, in some forty lines, of what is left."""
    gc.unfreeze()


@pytest.fixture(autouse=True)
def unhurried_disk(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """What writers in a test's own process say of a slow disk is about the machine, and would stand among what the test
    expects on standard error. tests/sql/test_syncing.py tests it."""
    if request.path.name != "test_syncing.py":
        monkeypatch.setattr(disk, "SYNC_S", 60.0)
