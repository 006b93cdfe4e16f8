"""Files that `mburst repair` set aside from a store: their rows are known to be missing.

A file that was set aside keeps its path below `damaged/`. What is missing with it is read in the same way as in the
store: from the name of a sealed file, and from the header and the sound batches of a log. It is missing until a file of
its name is back in the store, or until somebody removes it from that folder."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from .damage import SET_ASIDE, DamagedFile
from .format.filenames import ASIDE, HOT, SealedName, Segment
from .segments import (
    FileSelection,
    SealedFile,
    TableSnapshot,
    damaged_file,
    list_hot,
    list_sealed,
    sealed_rows,
    take_log,
)
from .tables import ORDER

COPY = ".copy"  # suffix of a copy that was set aside: no row is missing because of it


def place_of(store: Path, path: Path, is_copy: bool = False) -> Path:
    """The new place for PATH, which is set aside: a name that is not in use."""
    wanted = store / ASIDE / path.relative_to(store).with_name(f"{path.name}{COPY if is_copy else ''}")
    number, free = 1, wanted
    while os.path.lexists(free):
        number += 1
        free = wanted.with_name(f"{wanted.name}.{number}")
    return free


def mark_copies(store: Path, files: Iterable[SealedFile]) -> None:
    """Note that no row is missing because of what was set aside and is back with FILES, which may be replaced from now
    on. Raises OSError."""
    if not os.path.lexists(store / ASIDE):
        return
    back = list(files)
    for folder in _folders_of(back):
        names = [file.name for file in back if file.path.parent == folder]
        for name in _names_in(store / ASIDE / folder.relative_to(store)):
            if _is_in(names, name):
                _mark_copy(store, folder / name.name)
    segments = {(file.path.parents[2].name, file.name.segment.name): file for file in back}
    for (table, segment), file in segments.items():
        log = store / HOT / table / f"{segment}.log"
        aside = store / ASIDE / log.relative_to(store)
        if os.path.lexists(aside) and not _missing_of_log(store, aside, table, file.name.segment):
            _mark_copy(store, log)


def _mark_copy(store: Path, path: Path) -> None:
    """Note that no row is missing because of what was set aside from PATH. Raises OSError."""
    with suppress(FileNotFoundError):
        os.rename(store / ASIDE / path.relative_to(store), place_of(store, path, is_copy=True))


def missing_files(store: Path, narrow: Callable[[str], FileSelection]) -> dict[str, list[DamagedFile]]:
    """Returns, by table, the files that were set aside and can have rows that NARROW selects for that table. Raises
    OSError."""
    if not os.path.lexists(store / ASIDE):  # true of nearly every store
        return {}
    return {table: missing(store, table, narrow(table)) for table in ORDER}


def missing(store: Path, table: str, narrow: FileSelection) -> list[DamagedFile]:
    """Returns the same for TABLE."""
    hot, sealed = list_hot(store / ASIDE, table), list_sealed(store / ASIDE, table, narrow)
    back = {folder: _names_in(store / folder.relative_to(store / ASIDE)) for folder in _folders_of(sealed.files)}
    found = [
        damaged_file(file, table, SET_ASIDE) for file in sealed.files if not _is_in(back[file.path.parent], file.name)
    ]
    found += [replace(damage, reason=SET_ASIDE) for damage in [*hot.damage, *sealed.damage]]
    for path, segment in hot.logs.items():
        if not os.path.lexists(store / HOT / table / path.name):
            found += _missing_of_log(store, path, table, segment)
    return [
        file
        for file in found
        if (narrow.rack is None or file.rack in ("", narrow.rack)) and narrow.takes_times(file.first_ns, file.last_ns)
    ]


def _folders_of(files: Iterable[SealedFile]) -> set[Path]:
    return {file.path.parent for file in files}


def _is_in(names: Iterable[SealedName], lost: SealedName) -> bool:
    """Whether one of the files NAMES has the rows of the file LOST: it is of the same part, and reaches as far. Their
    bytes may differ; if it was sealed earlier, it has fewer rows."""
    return any(
        (name.segment.name, name.part) == (lost.segment.name, lost.part)
        and name.first_ns <= lost.first_ns
        and name.last_ns >= lost.last_ns
        for name in names
    )


def _names_in(folder: Path) -> list[SealedName]:
    """Returns the names of the sealed files in FOLDER. Raises OSError."""
    try:
        names = map(SealedName.parse, os.listdir(folder))
    except FileNotFoundError:
        return []
    return [name for name in names if name is not None]


def _missing_of_log(store: Path, path: Path, table: str, segment: Segment) -> list[DamagedFile]:
    """Returns what is missing of a log whose sound batches were saved; nothing if its sealed files have more rows."""
    read = TableSnapshot()
    with suppress(FileNotFoundError):
        take_log(path, table, segment, read)
    if any(sealed_rows(store, table, path.stem, log.rack) > log.count for log in read.logs):
        return []
    if not read.damage:  # damage then looks like an end that was never written, since this is another boot
        return [DamagedFile(str(path), table, SET_ASIDE, "", segment.host, segment.start_ns)]
    return [replace(damage, reason=SET_ASIDE) for damage in read.damage]
