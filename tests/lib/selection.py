"""Which tests run where, and in which order.

Each test is marked by its location and its fixtures: `alone`, `timed`, `root`, `browser`, `slow`, or `fast` if it is
none of these. tests/costs.txt has the cost of each file; the most expensive begin first if several workers run tests,
so that none of them is still running when the others are done.
"""

from __future__ import annotations

import functools
import os
import re
from pathlib import Path

import pytest
from places import ROOT

# Tests that compare times and rates with bounds, or change what the whole machine shares: they run one after the other,
# with the machine to themselves. All others tolerate concurrent tests.
ALONE = re.compile(
    r"rack/(?!test_(rack_measured|switch_agent)\.py)|cli/test_probe_verb\.py|lab/test_demo\.py"
    r"|capture/test_live_afpacket\.py"
    r"|telemetry/test_(exchange|probe|probe_paths)\.py|cli/test_canary_verb\.py"
)
# Tests in such files that do neither: calls that are refused, and answers about given data.
BESIDE = re.compile(
    r"lab/test_demo\.py::(?!test_(real_packets|whatever_ends_it_nothing_is_left_running)\b)"
    r"|capture/test_live_afpacket\.py::(?!test_(a_million_a_second_without_loss|a_thread_that_does_not_run\w*)\b)"
    r"|cli/test_canary_verb\.py::(?!test_the_recorder_detects_canary_bursts\b)"
    r"|cli/test_probe_verb\.py::test_(errors_of_\w+|rates|source_ports|classes|compare_states_\w+|times_of_one_store_\w+"
    r"|a_report_of_probes_alone)\b"
)
# Of the others, those that wait most of their time: they run beside each other, when nothing else runs.
TIMED = re.compile(r"cli/|telemetry/")
# Tests that need root: they make namespaces, mount file systems, or change users.
ROOT_FILES = re.compile(
    r"(faults|rights|services)/|capture/test_live_(engine|pfring|rights)\.py|sql/test_(full_disk|power_cut)\.py"
)
ROOT_FIXTURES = {"lab", "can_build"}
BROWSER = re.compile(r"browser/")
# Only for `make test-packages`, `make test-collector` and `make test-engines`: what they need takes minutes to build or
# to fetch.
PACKAGES = re.compile(r"(packages|collector|engines)/")
SLOW_S = 2.0  # processor time of all tests of a file

COSTS = ROOT / "tests" / "costs.txt"


@functools.cache
def costs() -> dict[str, float]:
    """Returns the processor seconds of each file below tests/; a new file has no entry."""
    lines = (line.split() for line in COSTS.read_text().splitlines() if not line.startswith("#"))
    return {name: float(seconds) for seconds, name in lines}


def marks_of(name: str, test: str, fixtures: set[str]) -> set[str]:
    """Returns the marks of a test, from the path of its file below tests/, its own name and the names of its
    fixtures."""
    needs_rest = bool(ALONE.match(name)) and not BESIDE.match(f"{name}::{test}")
    is_timed = bool(TIMED.match(name))
    marks = {
        "alone": needs_rest and not is_timed,
        "timed": needs_rest and is_timed,
        "root": bool(ROOT_FILES.match(name) or fixtures & ROOT_FIXTURES),
        "packages": bool(PACKAGES.match(name)),
        "browser": bool(BROWSER.match(name) or "browser" in fixtures),
        "slow": costs().get(name, 0) > SLOW_S,
    }
    return {mark for mark, given in marks.items() if given} or {"fast"}


def name_of(path: Path) -> str:
    """Returns the path of a file below tests/."""
    return path.relative_to(ROOT / "tests").as_posix() if path.is_relative_to(ROOT / "tests") else path.name


def can_have(name: str, mark: str) -> bool:
    """Returns whether any test of a file can have the mark `alone`, `timed` or `fast`."""
    if mark != "fast":
        return bool(ALONE.match(name)) and bool(TIMED.match(name)) == (mark == "timed")
    some_beside = re.escape(name) in BESIDE.pattern
    return marks_of(name, "", set()) <= ({"fast", "alone", "timed"} if some_beside else {"fast"})


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Skips the import of files from which `-m` with one of these marks would select nothing."""
    wanted = config.option.markexpr
    if wanted in ("alone", "timed", "fast") and collection_path.name.startswith("test_"):
        return None if can_have(name_of(collection_path), wanted) else True
    return None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks each test; orders them by the costs of their files if workers share them."""
    for item in items:
        for mark in marks_of(name_of(item.path), item.name, set(getattr(item, "fixturenames", ()))):
            item.add_marker(mark)
    if "PYTEST_XDIST_WORKER" in os.environ:
        items.sort(key=lambda item: -costs().get(name_of(item.path), 0))
