"""A run of the tests leaves the tree unchanged: files that it adds or changes are printed, and in CI they fail the run.

Otherwise, a file that a test writes into the current folder would be committed with the next change.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

_before = pytest.StashKey[set[str]]()
_after = pytest.StashKey[list[str]]()


def differing(tree: Path) -> set[str]:
    """Returns lines of `git status` of TREE; none if it is not a checkout."""
    if not (tree / ".git").exists():
        return set()
    listed = subprocess.run(["git", "status", "--porcelain"], cwd=tree, capture_output=True, text=True, check=True)
    return set(listed.stdout.splitlines())


def pytest_sessionstart(session: pytest.Session) -> None:
    """Records the state in the process that prints the summary, and not in each worker."""
    if not hasattr(session.config, "workerinput"):
        session.config.stash[_before] = differing(session.config.rootpath)


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fails a CI run that left changes."""
    config = session.config
    if _before not in config.stash:
        return
    config.stash[_after] = sorted(differing(config.rootpath) - config.stash[_before])
    if config.stash[_after] and os.environ.get("CI") and session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Prints the changes."""
    if left := terminalreporter.config.stash.get(_after, []):
        terminalreporter.section("left in the tree (git status)")
        for line in left:
            terminalreporter.line(line, red=True)
