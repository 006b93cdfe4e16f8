"""File systems for one test, which fill up, break, and lose power. They are unmounted whatever happens."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from faultlib import HERE
from livelab import sh
from logged_disk import ENTRY, WRITE
from mounts import mounted, need_root, unmount
from waiting import wait_for

BLOCK = 4096  # block size of the file systems: the disk writes a block completely or not at all
LEFT = {"ext4": "loop", "xfs": "loop,nouuid"}  # options for the image of a cut, beside others of the same disk
SIZES = {"ext4": 64 << 20, "xfs": 320 << 20}  # bytes; mkfs.xfs makes none of less than 300 MiB


def need(*tools: str) -> None:
    """Skips the test if a tool is missing."""
    for tool in tools:
        if not shutil.which(tool):
            pytest.skip(f"tested with {tool}, which is not installed")


@contextmanager
def in_memory() -> Iterator[Path]:
    """A folder in memory if the system has one."""
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="mburst-faults-", dir=memory) as folder:
        yield Path(folder)


def make_image(path: Path, kind: str, size: int | None = None) -> Path:
    """Creates an empty file system of KIND in a sparse file."""
    need(f"mkfs.{kind}")
    with path.open("wb") as file:
        file.truncate(size or SIZES[kind])
    sh(f"mkfs.{kind} -q {path}")
    return path


def copy(source: Path, target: Path) -> Path:
    """Copies an image; the copy is as sparse."""
    sh(f"cp --sparse=always {source} {target}")
    return target


@contextmanager
def loop(file: Path) -> Iterator[str]:
    """A loop device on FILE."""
    device = sh(f"losetup --find --show {file}").strip()
    try:
        yield device
    finally:
        subprocess.run(["losetup", "-d", device], capture_output=True, check=False)


@dataclass
class LoggedDisk:
    """A file system on a disk that logs its writes (logged_disk.py), mounted at `folder` while it lasts."""

    kind: str
    folder: Path
    empty: Path
    log: Path

    def cuts(self, moments: list[float], seed: object) -> Iterator[tuple[float, Path]]:
        """Yields (moment, image): possible contents of the disk when the power was cut at each of MOMENTS, in rising
        order. Everything written before the last flush is there. Of later writes, alternately every block is there, or
        only some are (the disk's cache was lost). Each image is a separate file: a process that started meanwhile in a
        mount namespace of its own may keep an earlier image mounted, and its loop device would be taken for that of the
        next one."""
        base = copy(self.empty, self.empty.with_name("base"))
        chances = random.Random(repr(seed))
        entries, cached = _entries(self.log), []
        entry = next(entries, None)
        for number, moment in enumerate(moments):
            while entry is not None and entry[0] <= moment:
                _, what, offset, data = entry
                if what == WRITE:
                    cached.append((offset, data))
                else:
                    _write(base, cached)
                    cached = []
                entry = next(entries, None)
            image = copy(base, self.empty.with_name(f"cut{number}"))
            share = 1.0 if number % 2 else chances.random()
            _write(image, [block for write in cached for block in _blocks(*write) if chances.random() < share])
            yield moment, image
            image.unlink()


def _entries(log: Path) -> Iterator[tuple[float, int, int, bytes]]:
    with log.open("rb") as file:
        while len(head := file.read(ENTRY.size)) == ENTRY.size:
            at, what, offset, length = ENTRY.unpack(head)
            yield at, what, offset, file.read(length if what == WRITE else 0)


def _blocks(offset: int, data: bytes) -> Iterator[tuple[int, bytes]]:
    for at in range(0, len(data), BLOCK):
        yield offset + at, data[at : at + BLOCK]


def _write(image: Path, writes: list[tuple[int, bytes]]) -> None:
    with image.open("r+b", buffering=0) as file:
        for offset, data in writes:
            os.pwrite(file.fileno(), data, offset)


@contextmanager
def logged_disk(folder: Path, kind: str) -> Iterator[LoggedDisk]:
    """Creates a file system of KIND on a logged disk."""
    need_root()
    pytest.importorskip("mfusepy", reason="power cuts are tested with mfusepy")
    if not os.access("/dev/fuse", os.W_OK):
        pytest.skip("power cuts are tested by FUSE, which this machine has not")
    empty = copy(make_image(folder / "made", kind), folder / "empty")
    (folder / "fuse").mkdir()
    arguments = [folder / "fuse", folder / "made", folder / "log"]
    with ExitStack() as stack:
        daemon = subprocess.Popen([sys.executable, str(HERE / "logged_disk.py"), *map(str, arguments)])
        stack.callback(daemon.wait, 30)
        stack.callback(unmount, folder / "fuse")
        wait_for(lambda: (folder / "fuse" / "disk").exists() or daemon.poll() is not None, "the logged disk")
        assert daemon.poll() is None, "the logged disk ended"
        device = stack.enter_context(loop(folder / "fuse" / "disk"))
        disk = LoggedDisk(kind, stack.enter_context(mounted(device, folder / "disk")), empty, folder / "log")
        yield disk
