"""Skips because of load: each is printed with its reason, and in CI more than a handful of them fail the run.

A test that the load of the machine can disturb may skip (calm.py). If many do, nothing was tested, which is not a
success.
"""

from __future__ import annotations

import os
from typing import Any

import pytest

LOAD = "cannot be determined under load, "  # prefix of the reasons of such skips
HANDFUL = 5

_skipped: list[str] = []


def pytest_runtest_logreport(report: Any) -> None:
    """Collects the skips, in the process that prints the summary."""
    reason = report.longrepr[2] if report.skipped and isinstance(report.longrepr, tuple) else ""
    if LOAD in reason:
        _skipped.append(f"{report.nodeid}: {reason}")


def _too_many() -> bool:
    return bool(os.environ.get("CI")) and len(_skipped) > HANDFUL


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fails a CI run that skipped too many tests."""
    if _too_many() and session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Prints the skips, and whether they fail the run."""
    if not _skipped:
        return
    terminalreporter.section("skipped because of load")
    for line in _skipped:
        terminalreporter.line(line)
    verdict = "too many: this run fails" if _too_many() else "in CI more of them fail the run"
    terminalreporter.line(f"{len(_skipped)} tests, of at most {HANDFUL}: {verdict}", red=_too_many())
    _skipped.clear()
