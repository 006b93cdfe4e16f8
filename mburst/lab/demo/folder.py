"""The folder of a demo: files of an earlier demo are replaced, other files are never touched."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ...errors import MburstError
from ...sql.store import MARKER

MANIFEST = "made-by-mburst-demo.txt"
NAMES = (
    "cache.pcap", "probes.csv", "queues-1ms.csv", "queues-1s.csv",
    "truth.csv", "store", "report", MANIFEST,
)  # fmt: skip


@contextmanager
def own(folder: Path) -> Iterator[None]:
    """Prepare a folder with none of NAMES in it. Files of an earlier demo are removed. Other files never are; if they
    are in the way, MburstError is raised. In the end a manifest lists the demo's files."""
    if (folder / MARKER).exists():
        raise MburstError(f"{folder} is a store of recordings", "name another folder for the demo: -o")
    if folder.exists() and not folder.is_dir():
        raise MburstError(f"{folder} is a file", "name a folder: -o")
    manifest = folder / MANIFEST
    made = set(manifest.read_text("utf-8", "replace").splitlines()) | {MANIFEST} if manifest.is_file() else set()
    foreign = sorted(files_of(folder) - made)
    if foreign:
        raise MburstError(
            f"{folder / foreign[0]} is in the way, and no earlier demo made it", "name another folder: -o"
        )
    for name in sorted(files_of(folder)):
        (folder / name).unlink()
    for name in NAMES:
        for parent, _, _ in os.walk(folder / name, topdown=False):
            os.rmdir(parent)
    folder.mkdir(parents=True, exist_ok=True)
    try:
        yield
    finally:
        manifest.write_text("\n".join(sorted(files_of(folder))) + "\n", encoding="utf-8")


def files_of(folder: Path) -> set[str]:
    """Returns the files in a folder that have, or are below, one of NAMES, as paths from the folder."""
    found = {name for name in NAMES if os.path.lexists(folder / name) and not (folder / name).is_dir()}
    for name in NAMES:
        for parent, _, files in os.walk(folder / name):
            found.update(os.path.relpath(os.path.join(parent, file), folder) for file in files)
    return found
