"""File systems that tests mount for themselves. Unmounted whatever happens."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from livelab import sh


def need_root() -> None:
    """Skips where nothing can be mounted."""
    if os.geteuid() != 0:
        pytest.skip("tested on a file system of the test's own, which only root can mount")


def unmount(folder: Path) -> None:
    """Unmount; a busy one is let go as soon as it is not."""
    if subprocess.run(["umount", str(folder)], capture_output=True, check=False).returncode:
        subprocess.run(["umount", "-l", str(folder)], capture_output=True, check=False)


@contextmanager
def mounted(source: Path | str, folder: Path, *options: str) -> Iterator[Path]:
    """A file system at FOLDER."""
    folder.mkdir(exist_ok=True)
    sh(f"mount {' '.join(options)} {source} {folder}")
    try:
        yield folder
    finally:
        unmount(folder)


@contextmanager
def tmpfs(folder: Path, options: str) -> Iterator[Path]:
    """A file system in memory, of so many bytes or files (size=96k). Skips where none may be mounted."""
    need_root()
    folder.mkdir(exist_ok=True)
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)], capture_output=True, text=True)
    if "permission denied" in done.stderr:
        pytest.skip(f"cannot mount a tmpfs: {done.stderr.strip()}")
    assert done.returncode == 0, done.stderr
    try:
        yield folder
    finally:
        unmount(folder)
