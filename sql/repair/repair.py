"""Sets damaged files of a store aside, and saves what can be read of damaged hot logs.

A file is moved to `damaged/` in the store, under the same path, where its name shows what is missing (sql/aside.py).
That rename is the commit: what was saved of a log is in sealed files that do not count while the log has its name.
Nothing is deleted, nothing is overwritten."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from errno import EFBIG
from pathlib import Path
from typing import TYPE_CHECKING

from ...errors import MburstError
from .. import disk, sealing
from ..aside import place_of
from ..damage import SECOND_COPY, DamagedFile
from ..disk import failing_as_one_line
from ..format.filenames import HOT, Segment
from ..format.hotlog import LogContent, LogHeader, LogReader, is_regular
from ..segments import damage_of_log, sealed_rows
from ..store import MARKER
from ..tables import STORE_FORMAT, columns
from .checking import check

if TYPE_CHECKING:
    from .checking import Findings


@dataclass(frozen=True)
class Repair:
    """What was done, or would be done, about a damaged file. `aside` is where it is afterwards, '' if it is left alone
    for `reason`. `saved` is the number of its rows that are saved, None if none can be. `is_copy` means that the store
    has its rows in other files."""

    damage: DamagedFile
    aside: str
    saved: int | None = None
    reason: str = ""
    is_copy: bool = False

    def __str__(self) -> str:
        if not self.aside:
            return f"{self.damage.path}: left alone: {self.reason}"
        saved = f"; rows saved of it: {self.saved:,}" if self.saved is not None else ""
        lost = "nothing" if self.is_copy else self.damage.missing()
        return f"{self.damage.path}: {self.damage.reason}; set aside as {self.aside}{saved}; lost: {lost}"


def repair(
    store: Path, dry_run: bool = False, progress: Callable[[Findings, int], None] | None = None
) -> Iterator[Repair]:
    """Check the store at STORE (see check for PROGRESS), and set damaged files aside; yields each file when it is done.
    With DRY_RUN nothing is written. Raises MburstError."""
    with _alone(store, dry_run):
        for damage in check(store, progress).damaged:
            with failing_as_one_line(Path(damage.path), "set aside"):
                if Path(damage.path) == store / MARKER:
                    yield _repair_marker(store, damage, dry_run)
                elif is_regular(path := Path(damage.path)) and not os.access(path, os.R_OK, effective_ids=True):
                    yield Repair(damage, "", reason="this user may not read it, so it may be sound")
                elif _is_log(store, Path(damage.path)):
                    yield _repair_log(store, damage, dry_run)
                else:
                    is_copy = damage.reason == SECOND_COPY
                    yield Repair(damage, _move(store, Path(damage.path), dry_run, is_copy), is_copy=is_copy)


@contextmanager
def _alone(store: Path, dry_run: bool) -> Iterator[None]:
    """Inside, no other repair of the store runs. Raises MburstError."""
    with failing_as_one_line(store, "read"):
        lock = os.open(store, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC) if store.is_dir() else -1
    try:
        if lock >= 0 and not dry_run:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    except BlockingIOError:
        raise MburstError(f"{store}: another repair is running", "wait for its end") from None
    finally:
        if lock >= 0:
            os.close(lock)


def _is_log(store: Path, path: Path) -> bool:
    """Whether there is a hot log at PATH, whatever its content."""
    return path.parent.parent == store / HOT and Segment.parse(path.stem) is not None and is_regular(path)


def _repair_marker(store: Path, damage: DamagedFile, dry_run: bool) -> Repair:
    """Keep a damaged marker under another name, and replace it in one step, so that there is always a marker."""
    path, aside = store / MARKER, place_of(store, store / MARKER)
    if not is_regular(path):  # a folder or the like cannot be replaced by a rename
        aside = Path(_move(store, path, dry_run))
    elif not dry_run:
        disk.make_folder(aside.parent)
        disk.write_durably(aside, path.read_bytes().decode("latin-1"))
    if not dry_run:
        disk.write_durably(path, json.dumps({"format": STORE_FORMAT}) + "\n")
    return Repair(damage, str(aside))


def _repair_log(store: Path, damage: DamagedFile, dry_run: bool) -> Repair:
    """Seal what can be read of a damaged log, then move it aside. The log of a living writer is left alone."""
    path = Path(damage.path)
    lock = disk.open_regular(path)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        log = LogReader(path, lock).read()
        if not damage_of_log(log, path.parent.name) and log.about and log.about.table == path.parent.name:
            return Repair(damage, "", reason="it is undamaged now")
        log = replace(log, about=_about(log, path.parent.name))
        if log.about is None or log.about.table != path.parent.name:  # of another table: its rows do not belong here
            return Repair(damage, _move(store, path, dry_run))
        sealed = sealed_rows(store, path.parent.name, path.stem, log.rack)
        if log.count >= sealed and log.batches and not dry_run:
            sealing.publish_log(store, path.parent.name, log)
        is_copy = sealed > log.count
        return Repair(damage, _move(store, path, dry_run, is_copy), max(log.count, sealed), is_copy=is_copy)
    except BlockingIOError:
        return Repair(damage, "", reason="its writer is running: end it, and try again")
    except OSError as error:
        if error.errno != EFBIG:
            raise
        return Repair(damage, _move(store, path, dry_run))
    finally:
        os.close(lock)


def _about(log: LogContent, table: str) -> LogHeader | None:
    """The description of the log, from its header or, if that is damaged, from its rows; None if neither has it."""
    if log.about is not None or not log.batches:
        return log.about or LogHeader(table, "", "", 0)
    rows = log.batches[0]
    if any(column.name not in rows.column_names for column in columns(table) if not column.nullable):
        return None
    rack = rows.column("rack")[0].as_py() if "rack" in rows.column_names else ""
    return LogHeader(table, "", rack, len(rows.column_names))


def _move(store: Path, path: Path, dry_run: bool, is_copy: bool = False) -> str:
    """Move PATH aside, durably. Returns its new place."""
    aside = place_of(store, path, is_copy)
    if not dry_run:
        disk.make_folder(aside.parent)
        with suppress(FileNotFoundError):  # another process has moved it
            os.rename(path, aside)
        disk.sync(aside.parent)
        disk.sync(path.parent)
    return str(aside)
