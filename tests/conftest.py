"""What tests of every room share."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from places import ROOT

pytest_plugins = ["livelab", "netlab"]

# Tests that bear others beside them: they compute. All others measure time, build networks or open a browser, and run
# one after the other.
BESIDE_OTHERS = re.compile(
    r"(analysis|dashboards|sql|capture(?!/test_(live_|bench_|memory)))/"
    r"|agent/test_(config|hostile_names|meter|outside_tools|schedule|secrets)\.py"
    r"|telemetry/test_(gnmi_(config|hostile|limits|messages|rows|vendors|wild)|gnmic_files|delays|import|stamp)\.py"
    r"|test_(cli_docs|damaged_files|files|hardening|house|import_verb|names|planted|record_verb|simulate"
    r"|simulated_cases|supply|units)\.py"
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests that need the machine to themselves."""
    for item in items:
        if not BESIDE_OTHERS.match(item.path.relative_to(ROOT / "tests").as_posix()):
            item.add_marker("alone")


@pytest.fixture(scope="session")
def captures() -> Path:
    """The folder of recorded captures, which is not part of the repository."""
    folder = Path(os.environ.get("MBURST_CAPTURES", ROOT.parent / "shared" / "captures"))
    if not folder.is_dir():
        pytest.skip(f"no recorded captures at {folder}: set MBURST_CAPTURES")
    return folder
