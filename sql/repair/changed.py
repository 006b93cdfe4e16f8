"""Finds damage of a store as far as that is cheap: examines each file, and reads those that have changed since they
were last verified."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from .. import verified
from ..damage import SECOND_COPY, DamagedFile
from ..disk import failing_as_one_line
from ..segments import FileSelection, SealedFile, damaged_file, list_hot, list_sealed, second_copies
from ..tables import ORDER

MOST_BYTES = 1 << 30  # to read: of the files that changed, those that changed last


def check_changed(store: Path, most_bytes: int = MOST_BYTES) -> list[DamagedFile]:
    """Returns the damage of the sealed files of the store at STORE, and of anything in their places, sorted by path.
    Changed files are verified up to MOST_BYTES in total, and remembered, so that the next call continues with others;
    of the rest only the ends are read. Rot, which changes no time of a file, is left for `check` to find. Raises
    MburstError."""
    found: list[DamagedFile] = []
    counting: dict[str, list[SealedFile]] = {}
    with failing_as_one_line(store, "read"):
        for table in ORDER:
            hot, sealed = list_hot(store, table), list_sealed(store, table, FileSelection())
            hidden = {log.stem for log in hot.logs}
            counting[table] = [file for file in sealed.files if file.name.segment.name not in hidden]
            found += [*hot.damage, *sealed.damage]
        changed = verified.changed(file.path for files in counting.values() for file in files)
        stats = {path: stat for path in changed if (stat := _stat(path)) is not None}
        newest = sorted(stats, key=lambda path: stats[path].st_ctime_ns, reverse=True)
        faults = _faults(newest, stats, most_bytes)
        for table, files in counting.items():
            found += _damaged(table, files, faults)
    return sorted(found, key=lambda damage: damage.path)


def _damaged(table: str, files: list[SealedFile], faults: dict[Path, str]) -> Iterator[DamagedFile]:
    """The damaged files among FILES of TABLE, and the second copies."""
    second = {file.path for file in second_copies(files, lambda _: faults)}
    for file in files:
        if file.path in second:
            yield damaged_file(file, table, SECOND_COPY)
        elif file.path in faults and os.path.lexists(file.path):
            yield damaged_file(file, table, faults[file.path])


def _faults(newest: Iterable[Path], stats: dict[Path, os.stat_result], most_bytes: int) -> dict[Path, str]:
    """The files that do not hold what was written, with the reason."""
    read, rest, size = list[Path](), list[Path](), 0
    for path in newest:
        size += stats[path].st_size
        (read if size <= most_bytes else rest).append(path)
    cut = {path: "the content does not match its checksum" for path in rest if not verified.has_ends(path)}
    return verified.unverified(read) | cut


def _stat(path: Path) -> os.stat_result | None:
    """Returns None if the file was replaced in the meantime."""
    try:
        return os.lstat(path)
    except OSError:
        return None
