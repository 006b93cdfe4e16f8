"""File systems that tests mount for themselves. They are unmounted whatever happens."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from livelab import sh


def need_root() -> None:
    """Skips if nothing can be mounted."""
    if os.geteuid() != 0:
        pytest.skip("tested on a file system of the test's own, which only root can mount")


def unmount(folder: Path) -> None:
    """Unmounts a file system; a busy one is unmounted as soon as it is no longer busy."""
    if subprocess.run(["umount", str(folder)], capture_output=True, check=False).returncode:
        subprocess.run(["umount", "-l", str(folder)], capture_output=True, check=False)


@contextmanager
def mounted(source: Path | str, folder: Path, *options: str) -> Iterator[Path]:
    """Mounts a file system at FOLDER."""
    folder.mkdir(exist_ok=True)
    sh(f"mount {' '.join(options)} {source} {folder}")
    try:
        yield folder
    finally:
        unmount(folder)


@contextmanager
def tmpfs(folder: Path, options: str) -> Iterator[Path]:
    """Mounts a file system in memory, of a limited number of bytes or files (size=96k). Skips if none may be
    mounted."""
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
