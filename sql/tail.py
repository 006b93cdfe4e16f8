"""Follows a table of a store: what its writers append, a poll at a time, without reading anything twice.

A hot log is an Arrow IPC stream. Each is read on from where the last poll came to, by whole messages: what a writer is
just writing is left for the next poll. A log that was sealed meanwhile is read to its end through the file that is
still open. What came and was sealed between two polls is read from its sealed files.
"""

from __future__ import annotations

import mmap
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import MburstError
from . import segments
from .tables import columns

if TYPE_CHECKING:
    import pyarrow as pa

LOOK_FOR_SEALED_S = 1.0  # that folders are listed for


class Tail:
    """One table of the store at STORE, of one rack or of all. What is there when it begins is left to queries: who
    connects to the store afterwards misses nothing, and may see the first rows of a poll already. `damage` has a line
    for each file that cannot be followed."""

    def __init__(self, store: Path, table: str, rack: str | None = None,
                 look_for_sealed_s: float = LOOK_FOR_SEALED_S) -> None:
        names = [column.name for column in columns(table)]
        self._store = store
        self._table = table
        self._rack = rack if "rack" in names else None
        self._names = names
        self._logs: dict[str, _Log] = {}
        self._done: set[str] = set()
        self._look_for_sealed_s = look_for_sealed_s
        self._looked = 0.0
        self.damage: list[str] = []
        self._begin()

    def _begin(self) -> None:
        """Pass over what is there."""
        while True:
            before = segments.hot_files(self._store, self._table)
            self._open_new(before)
            sealed = {segments.segment_of(path) for path in self._sealed()}
            if all(path.stem in self._logs or path.stem not in sealed for path in before):
                self._done |= sealed - set(self._logs)
                break
        for segment, log in list(self._logs.items()):
            try:
                log.read()
            except MburstError as error:
                self._give_up(segment, error)
                log.close()
                del self._logs[segment]

    def _sealed(self) -> list[Path]:
        """Sealed files whose rows may be of these days: older ones are no news."""
        yesterday = time.time_ns() // segments.NS_PER_DAY - 1
        return segments.sealed_files(self._store, self._table, segments.Narrow(self._rack, yesterday))

    def _open_new(self, paths: list[Path]) -> None:
        for path in paths:
            if path.stem in self._logs or path.stem in self._done:
                continue
            try:
                log = _Log(path)
            except FileNotFoundError:
                continue  # sealed since it was listed
            except MburstError as error:
                self._give_up(path.stem, error)
                continue
            if self._rack is None or log.rack == self._rack:
                self._logs[path.stem] = log
            else:
                log.close()
                self._done.add(path.stem)

    def _give_up(self, segment: str, error: MburstError) -> None:
        self._done.add(segment)
        self.damage.append(str(error))

    def poll(self) -> list[pa.Table]:
        """The rows that came since the last poll, the store's columns each, in the order in which each writer wrote
        them. Empty tables are left out."""
        self._open_new(segments.hot_files(self._store, self._table))
        found = []
        for segment, log in list(self._logs.items()):
            gone = log.is_gone()  # asked before the rest is read, so that nothing comes after
            try:
                found += log.read()
            except MburstError as error:
                self._give_up(segment, error)
                gone = True
            if gone:
                log.close()
                del self._logs[segment]
                self._done.add(segment)
        return [rows.select(self._names) for rows in [*found, *self._newly_sealed()] if rows.num_rows]

    def _newly_sealed(self) -> list[pa.Table]:
        """Of segments that came and were sealed between two polls."""
        import pyarrow.parquet as pq

        now = time.monotonic()
        if now - self._looked < self._look_for_sealed_s:
            return []
        self._looked = now
        known = self._done | set(self._logs) | {path.stem for path in segments.hot_files(self._store, self._table)}
        rows, seen = [], set()
        for path in self._sealed():
            segment = segments.segment_of(path)
            if segment in known:
                continue
            seen.add(segment)
            try:
                with segments.failing_on_damage(path):
                    rows.append(pq.read_table(path, partitioning=None))
            except FileNotFoundError:
                continue
            except MburstError as error:
                self.damage.append(str(error))
        self._done |= seen
        return rows

    def close(self) -> None:
        """Close the files."""
        for log in self._logs.values():
            log.close()
        self._logs.clear()


class _Log:
    """A hot log that is read on and on. The reader keeps the dictionaries of its texts."""

    def __init__(self, path: Path) -> None:
        import pyarrow as pa

        self.path = path
        self._file = path.open("rb", buffering=0)
        with segments.failing_on_damage(path):
            self._reader = pa.ipc.open_stream(pa.PythonFile(self._file, "r"))
        self.rack = (self._reader.schema.metadata or {}).get(b"rack", b"").decode()

    def is_gone(self) -> bool:
        """Whether the log was sealed: it has no name any more, and nothing is appended."""
        return os.fstat(self._file.fileno()).st_nlink == 0

    def read(self) -> list[pa.Table]:
        """The whole batches that came since the last call. Raises MburstError."""
        import pyarrow as pa

        with segments.failing_on_damage(self.path):
            batches = [self._reader.read_next_batch() for _ in range(self._whole_batches())]
            return [pa.Table.from_batches([batch]) for batch in batches if batch.num_rows]

    def _whole_batches(self) -> int:
        """How many batches begin behind what was read and are whole."""
        import pyarrow as pa

        at, size = self._file.tell(), os.fstat(self._file.fileno()).st_size
        if size <= at:
            return 0
        first_page = at // mmap.ALLOCATIONGRANULARITY * mmap.ALLOCATIONGRANULARITY
        mapped = mmap.mmap(self._file.fileno(), size - first_page, prot=mmap.PROT_READ, offset=first_page)
        whole = 0
        source = pa.BufferReader(pa.py_buffer(mapped))
        source.seek(at - first_page)
        try:
            while True:
                whole += pa.ipc.read_message(source).type == "record batch"
        except (EOFError, pa.ArrowInvalid, OSError):
            if source.tell() < source.size():  # neither the end nor a torn message: this is no stream any more
                raise
        return whole

    def close(self) -> None:
        """Close the file."""
        self._file.close()
