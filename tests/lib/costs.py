"""Measures what tests cost: a plugin of pytest (-p costs; the folder tests/lib in PYTHONPATH).

The processor time of a test is that of its process and of the children that it waited for. It is valid on any machine,
however busy; wall time is valid only on a quiet one. The difference of both is the time for which a test waits. With
COSTS=FILE, each phase of each test is also written there, as lines of JSON.
"""

from __future__ import annotations

import json
import os
import resource
import time
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import pytest

_LONGEST = 40  # rows of the tables of files and fixtures
_phases: list[dict[str, Any]] = []
_fixtures: list[tuple[str, float, float]] = []  # (name, wall, processor) of the fixtures that the current phase set up


def _processor_s() -> float:
    usages = map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


class _Meter:
    """Processor seconds since the last reading."""

    def __init__(self) -> None:
        self._last = _processor_s()

    def read(self) -> float:
        self._last, before = _processor_s(), self._last
        return self._last - before


_meter = _Meter()


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(fixturedef: Any) -> Iterator[None]:
    """Records the cost of a fixture, including the fixtures that it requests."""
    begin, processor = time.monotonic(), _processor_s()
    result = yield
    _fixtures.append((fixturedef.argname, time.monotonic() - begin, _processor_s() - processor))
    return result


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
    """Adds the cost to the report of each phase; workers send reports to the main process."""
    report = yield
    report.processor_s, report.fixtures = _meter.read(), list(_fixtures)
    _fixtures.clear()
    return report


def pytest_runtest_logreport(report: Any) -> None:
    """Collects the phases, in the process that prints the summary."""
    if not hasattr(report, "processor_s"):
        return  # of a worker that crashed
    taken = {"test": report.nodeid, "phase": report.when, "outcome": report.outcome, "wall_s": report.duration}
    _phases.append({**taken, "processor_s": report.processor_s, "fixtures": report.fixtures})
    if "COSTS" in os.environ and "PYTEST_XDIST_WORKER" not in os.environ:
        with open(os.environ["COSTS"], "a") as out:
            out.write(json.dumps(_phases[-1]) + "\n")


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """Prints the most expensive files and fixtures."""
    if hasattr(config, "workerinput") or not _phases:
        return
    files, fixtures = defaultdict(list), defaultdict(list)
    for phase in _phases:
        files[phase["test"].split("::")[0]].append((phase["wall_s"], phase["processor_s"]))
        for name, wall, processor in phase["fixtures"]:
            fixtures[name].append((wall, processor))
    for title, costs in (("files", files), ("fixtures", fixtures)):
        terminalreporter.section(f"cost of {title}")
        sums = {name: (sum(wall for wall, _ in some), sum(cpu for _, cpu in some)) for name, some in costs.items()}
        terminalreporter.line(f"{'processor s':>11} {'wall s':>8}  of {len(sums)} {title}")
        for name, (wall, cpu) in [("all", tuple(map(sum, zip(*sums.values(), strict=True))))] * (
            title == "files"
        ) + sorted(sums.items(), key=lambda item: -item[1][1])[:_LONGEST]:
            terminalreporter.line(f"{cpu:11.1f} {wall:8.1f}  {name}")
