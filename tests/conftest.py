"""What tests of every room share."""

from __future__ import annotations

import os
import re
import signal
from pathlib import Path

import pytest
from places import ROOT

pytest_plugins = ["livelab", "netlab"]

# A shell ignores SIGINT in what it starts in the background, and all programs that tests interrupt would inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Tests that hold times and rates against bounds, or change what the whole machine shares: they run one after the other,
# with the machine to themselves. All others bear tests beside them.
ALONE = re.compile(
    r"rack/|cli/test_(collect_verb|doctor|probe_verb|record_live)\.py|lab/test_demo\.py"
    r"|capture/test_(bench_engine|live_afpacket|live_timestamps|memory)\.py"
    r"|faults/test_killed_recordings\.py"
    r"|telemetry/test_(clock|exchange|gnmi_session|probe|probe_paths|timestamping)\.py"
)


def runs_alone(path: Path) -> bool:
    return bool(ALONE.match(path.relative_to(ROOT / "tests").as_posix()))


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Do not import what `-m alone` would deselect as a whole."""
    only_alone = config.option.markexpr == "alone" and collection_path.name.startswith("test_")
    return True if only_alone and not runs_alone(collection_path) else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests that need the machine to themselves."""
    for item in items:
        if runs_alone(item.path):
            item.add_marker("alone")


@pytest.fixture(scope="session")
def captures() -> Path:
    """The folder of recorded captures, which is not part of the repository."""
    folder = Path(os.environ.get("MBURST_CAPTURES", ROOT.parent / "shared" / "captures"))
    if not folder.is_dir():
        pytest.skip(f"no recorded captures at {folder}: set MBURST_CAPTURES")
    return folder
