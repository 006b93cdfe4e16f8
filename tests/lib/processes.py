"""The processes below an agent, from /proc."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from waiting import wait_for


def children(pid: int) -> list[int]:
    """Returns the processes that PID has started; none if it has ended."""
    try:
        tasks = list(Path(f"/proc/{pid}/task").iterdir())
        return [int(child) for task in tasks for child in (task / "children").read_text().split()]
    except OSError:
        return []


def verb_of(pid: int) -> str:
    """Returns the verb of an mburst that an agent started; "" if it does not exist any more."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_text().split("\0")[5]
    except (OSError, IndexError):
        return ""


def has_open(pid: int, path: Path) -> bool:
    """Returns whether PID has the file or folder at PATH open; false if it has ended."""
    try:
        return any(os.path.realpath(one) == str(path) for one in Path(f"/proc/{pid}/fd").iterdir())
    except OSError:
        return False


def is_stopped(pid: int) -> bool:
    """Returns whether PID was stopped by a signal, and has not been continued."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].startswith("T")


def stop(pid: int) -> None:
    """Stop PID. Until it has stopped, SIGTERM would still end it."""
    os.kill(pid, signal.SIGSTOP)
    wait_for(lambda: is_stopped(pid))
