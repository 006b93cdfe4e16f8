"""Processes with fewer rights, and how they can reach the Python that runs these tests."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

import mburst

STRANGER = 64_999  # a user id that no user has
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")


def _hidden() -> str | None:
    """Returns the first folder on the path to this Python that other users may not enter."""
    for path in (*reversed(Path(sys.base_prefix).parents), Path(sys.base_prefix)):
        if not path.stat().st_mode & 1:
            return str(path)
    return None


def for_all(command: list[str]) -> list[str]:
    """Returns COMMAND in its own mount namespace, in which every user can reach this Python."""
    hidden = _hidden()
    if not hidden:
        return command
    python, place = shlex.quote(sys.base_prefix), shlex.quote(hidden)
    return _with_mounts(
        f"mount --bind {python} $aside; mount -t tmpfs -o mode=755 tmpfs {place}; mkdir -p {python}; "
        f"mount --bind $aside {python}",
        command,
    )


def for_root_alone(command: list[str]) -> list[str]:
    """Returns COMMAND in its own mount namespace, in which only root can read the package mburst."""
    package = shlex.quote(str(Path(mburst.__file__).parent))
    return _with_mounts(
        f"mount --bind {package} $aside; mount -t tmpfs tmpfs {package}; cp -a $aside/. {package}; chmod 700 {package}",
        command,
    )


def _with_mounts(mounts: str, command: list[str]) -> list[str]:
    """Returns COMMAND in its own mount namespace, after the shell commands MOUNTS; $aside is a folder for them."""
    script = f'set -e; mount --make-rprivate /; aside=$(mktemp -d); {mounts}; umount $aside; rmdir $aside; exec "$@"'
    return ["unshare", "--mount", "sh", "-c", script, "sh", *command]


def status(pid: int | str, thread: int | str | None = None) -> dict[str, str]:
    """Returns /proc/PID/status of a process or of one thread of it."""
    path = Path(f"/proc/{pid}/task/{thread}/status" if thread else f"/proc/{pid}/status")
    return dict(line.split(":\t", 1) for line in path.read_text().splitlines())


def threads(pid: int) -> list[dict[str, str]]:
    """Returns the same for each thread that still exists."""
    found = []
    for thread in Path(f"/proc/{pid}/task").iterdir():
        with suppress(FileNotFoundError, ProcessLookupError):
            found.append(status(pid, thread.name))
    return found


def run_python(script: str, *arguments: object, everywhere: bool = False) -> subprocess.CompletedProcess[str]:
    """Runs a separate program that imports mburst."""
    command = [sys.executable, "-P", "-c", script, *map(str, arguments)]
    return subprocess.run(
        for_all(command) if everywhere else command, capture_output=True, text=True, timeout=60, check=False
    )
