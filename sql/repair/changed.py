"""What is damaged of a store, as far as that is cheap to see: by a look at each file, and a reading of those that have
changed since they were verified last."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from .. import verified
from ..damage import DamagedFile
from ..disk import failing_as_one_line
from ..segments import SECOND_COPY, FileSelection, SealedFile, damaged_file, list_hot, list_sealed, second_copies
from ..tables import ORDER

MOST_BYTES = 1 << 30  # that are read: of the files that changed, those that changed last


def check_changed(store: Path, most_bytes: int = MOST_BYTES) -> list[DamagedFile]:
    """What is damaged of the sealed files of the store at STORE, and of what is in their places, sorted by path. Files
    that changed are verified up to MOST_BYTES in all, and remembered, so that the next call goes on with others; of the
    rest only the ends are read. Rot, which changes no time of a file, is for `check` to find. Raises MburstError."""
    found: list[DamagedFile] = []
    changed: list[tuple[SealedFile, str]] = []
    with failing_as_one_line(store, "read"):
        for table in ORDER:
            hot, sealed = list_hot(store, table), list_sealed(store, table, FileSelection())
            hidden = {log.stem for log in hot.logs}
            files = [file for file in sealed.files if file.name.segment.name not in hidden]
            copies = second_copies(files)
            found += [*hot.damage, *sealed.damage, *(damaged_file(file, table, SECOND_COPY) for file in copies)]
            new = set(verified.changed(file.path for file in files if file not in copies))
            changed += [(file, table) for file in files if file.path in new]
        found += _damaged(changed, most_bytes)
    return sorted(found, key=lambda damage: damage.path)


def _damaged(changed: list[tuple[SealedFile, str]], most_bytes: int) -> Iterator[DamagedFile]:
    """The damaged ones of CHANGED files."""
    stats = {file.path: stat for file, _ in changed if (stat := _stat(file.path)) is not None}
    newest = sorted(stats, key=lambda path: stats[path].st_ctime_ns, reverse=True)
    faults = _faults(newest, stats, most_bytes)
    for file, table in changed:
        if file.path in faults and os.path.lexists(file.path):
            yield damaged_file(file, table, faults[file.path])


def _faults(newest: Iterable[Path], stats: dict[Path, os.stat_result], most_bytes: int) -> dict[Path, str]:
    """Why files do not hold what was written."""
    read, rest, size = list[Path](), list[Path](), 0
    for path in newest:
        size += stats[path].st_size
        (read if size <= most_bytes else rest).append(path)
    cut = {path: "the content does not match its checksum" for path in rest if not verified.has_ends(path)}
    return verified.unverified(read) | cut


def _stat(path: Path) -> os.stat_result | None:
    """None where it was replaced meanwhile."""
    try:
        return os.lstat(path)
    except OSError:
        return None
