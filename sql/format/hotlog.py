"""The hot form of a segment: a log that one writer appends to, and its readers. Its format: sql/format/frames.py."""

from __future__ import annotations

import fcntl
import json
import os
import stat
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from errno import EFBIG
from pathlib import Path
from typing import TYPE_CHECKING

from ... import files
from ...errors import MburstError, UsageError
from ...machine import boot_id, was_restarted
from ...messages import print_error
from .. import disk, tables
from ..disk import failing_as_one_line
from . import batches, filenames, frames
from .filenames import Segment, hot_path

if TYPE_CHECKING:
    import pyarrow as pa

FORMAT = 2
MOST_BYTES = 16 << 30  # of a log, which is held in memory completely: some eight times the longest
FIRST_BYTES = 16 << 20  # of a log that contain its first batch


@dataclass(frozen=True)
class LogHeader:
    """The content of frame 0 of a log. BOOT is the boot id of the writer's machine, '' if it is not known."""

    table: str
    host: str
    rack: str
    columns: int
    boot: str = ""

    def to_json(self) -> bytes:
        """The form in which frame 0 has it."""
        return json.dumps({"format": FORMAT, **vars(self)}, sort_keys=True).encode()

    @classmethod
    def from_json(cls, text: bytes | memoryview) -> LogHeader:
        """Read a verified frame 0. Raises ValueError if its content is not what it should be."""
        try:
            fields = json.loads(bytes(text))
            about = cls(fields["table"], fields["host"], fields["rack"], fields["columns"], fields.get("boot", ""))
            names = f"{about.host}{about.rack}{about.boot}".encode()  # surrogates cannot be encoded
            filenames.check_rack(about.rack)
        except (ValueError, KeyError, TypeError, RecursionError, UsageError) as error:
            raise ValueError("not the header of a log") from error
        kinds = [*map(type, vars(about).values())]
        if kinds != [str, str, str, int, str] or about.table not in tables.ORDER or b"\0" in names:
            raise ValueError("not the header of a log")
        return about


class HotLog:
    """The hot form of a segment while its writer lives, which holds a lock (flock) on it as a sign of life.

    Rows survive the death of the writer once `append` has returned, and that of the machine once `sync` has.
    disk.Syncer syncs within a second, or reports the delay."""

    def __init__(
        self,
        store: Path,
        table: str,
        segment: Segment,
        rack: str,
        on_trouble: Callable[[MburstError], None] = print_error,
    ) -> None:
        """Make the file. It gets its name when it is locked and its header is on the disk, so nobody ever sees it in
        another state. ON_TROUBLE is called, in another thread, for rows that do not reach the disk in time. Raises
        MburstError."""
        self.segment = segment
        self.path = hot_path(store, table, segment)
        self.about = LogHeader(table, segment.host, rack, len(tables.columns(table)), boot_id())
        self.rows = self.bytes = 0
        self.started = time.monotonic()
        self._seed = frames.seed_of(segment.name)
        self._number = 0
        self._stream = _Stream()
        with failing_as_one_line(self.path, "write"):
            disk.make_folder(self.path.parent, store)  # if the store was moved, it is not created again
            hidden = self.path.with_suffix(".new")
            flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
            self._file = os.open(hidden, flags, 0o640)
            try:
                fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                self._write(self.about.to_json())
                os.fsync(self._file)
                hidden.rename(self.path)
                disk.sync(self.path.parent)
                self._syncing = disk.Syncer.shared().watch(
                    self._file, lambda late_s: on_trouble(late(self.path, late_s))
                )
            except BaseException:  # also if no more threads can be started
                os.close(self._file)
                hidden.unlink(missing_ok=True)
                raise

    def append(self, rows: pa.Table) -> None:
        """Write ROWS and hand them to the kernel. After a failure the log must not be appended to again. Raises
        MburstError, also if an earlier row did not reach the disk."""
        begun = time.monotonic()
        with failing_as_one_line(self.path, "write"):
            self._syncing.raise_failure()
            for batch in rows.to_batches():
                if batch.num_rows:
                    self._write(self._stream.of(batch))
            self._syncing.dirty(begun)
        self.rows += rows.num_rows

    def _write(self, payload: bytes | memoryview) -> None:
        pieces = [frames.header(self._number, payload, self._seed), payload, frames.padding(len(payload))]
        self.bytes += files.append(self._file, *pieces)  # a torn end would do no harm, but use space
        self._number += 1

    def begin_sync(self) -> None:
        """Have another thread write to disk what was appended, unless it is already doing so; `sync` waits for it."""
        self._syncing.begin()

    def sync(self) -> None:
        """Wait until everything that was appended is on the disk. Raises MburstError."""
        with failing_as_one_line(self.path, "write"):
            self._syncing.sync()
            self._syncing.raise_failure()

    def leave(self) -> None:
        """Release the lock; the file stays and anybody may seal it. Its rows are on the disk, if possible."""
        self._syncing.sync()
        self._syncing.stop()
        os.close(self._file)

    def remove(self) -> None:
        """Remove the file: the commit of a seal, from which on the sealed files count."""
        with failing_as_one_line(self.path, "remove"):
            self.path.unlink()
            disk.sync(self.path.parent)


def late(path: Path, seconds: float) -> MburstError:
    """The report that rows of the log at PATH were not on the disk for that long."""
    return MburstError(
        f"{path}: the disk is slow, or this process was stopped: a power cut could have cost the rows of "
        f"{seconds:.2f} s, more than {disk.SYNC_S:g} s",
        "if it was not stopped (SIGSTOP, a suspended machine), record to a faster disk, or to one with less to do",
    )


class _Stream:
    """Makes each batch an Arrow IPC stream of its own, in memory that is reused: new pages cost more than the copy."""

    def __init__(self) -> None:
        self._room: pa.Buffer | None = None

    def of(self, batch: pa.RecordBatch) -> memoryview:
        """Returns BATCH as a stream, valid until the next call."""
        import pyarrow as pa

        counted = pa.MockOutputStream()
        _write_stream(batch, counted)
        if self._room is None or self._room.size < counted.size():
            self._room = pa.allocate_buffer(counted.size())
        _write_stream(batch, pa.FixedSizeBufferWriter(self._room))
        return memoryview(self._room)[: counted.size()]


def _write_stream(batch: pa.RecordBatch, sink: pa.NativeFile) -> None:
    import pyarrow as pa

    with pa.ipc.new_stream(sink, batch.schema) as stream:
        stream.write_batch(batch)


@dataclass
class LogContent:
    """What was read of a log."""

    path: Path
    about: LogHeader | None
    batches: list[pa.Table]
    scan: frames.LogScan

    @property
    def rows(self) -> pa.Table:
        """All rows, in the order in which they were written. There must be at least one batch."""
        import pyarrow as pa

        return pa.concat_tables(self.batches)

    @property
    def rack(self) -> str | None:
        """The rack whose rows it has; None if it is not known."""
        return self.about.rack if self.about else None

    @property
    def count(self) -> int:
        """The number of rows that were read."""
        return sum(batch.num_rows for batch in self.batches)

    @property
    def is_sound(self) -> bool:
        """Whether nothing is damaged: at most the end is torn."""
        return not self.scan.damage


class LogReader:
    """Reads a log as it grows. Nothing reaches Arrow that does not match its checksum; what a writer is just writing is
    left for the next `read`."""

    def __init__(self, path: Path, descriptor: int | None = None) -> None:
        """Read the log at PATH, or DESCRIPTOR, which the caller closes. Raises FileNotFoundError, and OSError if it is
        not a regular file."""
        self.path = path
        self._owned = descriptor is None
        self._file = disk.open_regular(path) if descriptor is None else descriptor
        self._seed = frames.seed_of(path.stem)
        self._end = self._number = 0
        self.about: LogHeader | None = None
        self._schema: pa.Schema | None = None

    def read(self) -> LogContent:
        """Returns the complete batches that came since the last call, and the damage among them. Raises OSError."""
        if os.fstat(self._file).st_size > MOST_BYTES:
            raise OSError(EFBIG, f"longer than {MOST_BYTES:,} bytes, the limit of a log")
        scan = self._scan()
        self._end, self._number = scan.end, scan.next_number
        return LogContent(self.path, self.about, self._batches(scan), scan)

    def _scan(self) -> frames.LogScan:
        """Scan what came since the last call; `about` is the content of frame 0, once it was read."""
        part = disk.read_from(self._file, self._end), self._seed, self._number, self._end
        scan = frames.scan(*part)
        if 0 in scan.payloads:
            self._read_about(scan)
        if scan.damage and self.about and was_restarted(self.about.boot):
            return frames.scan_after_cut(*part)
        return scan

    def _read_about(self, scan: frames.LogScan) -> None:
        try:
            self.about = LogHeader.from_json(scan.payloads[0])
        except ValueError as error:
            frames.refuse(scan, 0, str(error))

    def _batches(self, scan: frames.LogScan) -> list[pa.Table]:
        """The rows of each frame except the first; all are of one schema."""
        table, found = self.about.table if self.about else self.path.parent.name, []
        for number in sorted(scan.payloads.keys() - {0}):
            try:
                batch = batches.from_stream(scan.payloads[number], table)
                self._schema = self._schema or batch.schema
                if batch.schema != self._schema:
                    raise ValueError("other columns than the batches before")
                found.append(batch)
            except ValueError as error:
                frames.refuse(scan, number, str(error).splitlines()[0])
        return found

    def is_gone(self) -> bool:
        """Whether the log was sealed: it has no name any more, and nothing is appended."""
        return os.fstat(self._file).st_nlink == 0

    def close(self) -> None:
        """Close the file, unless it belongs to the caller."""
        if self._owned:
            os.close(self._file)


def read_log(path: Path) -> LogContent:
    """Read all of a log. A last batch that is incomplete was never acknowledged and is left out. Raises
    FileNotFoundError, and OSError if it cannot be read."""
    reader = LogReader(path)
    try:
        return reader.read()
    finally:
        reader.close()


def read_beginning(path: Path) -> tuple[LogHeader | None, int | None]:
    """Returns the header of a log, and the earliest time in its first batch, without reading the rest; None for what is
    damaged or not yet there. Raises FileNotFoundError, and OSError if it cannot be read."""
    import pyarrow.compute as pc

    descriptor = disk.open_regular(path)
    try:
        scan = frames.scan(os.pread(descriptor, FIRST_BYTES, 0), frames.seed_of(path.stem))
    finally:
        os.close(descriptor)
    about = first_ns = None
    with suppress(KeyError, ValueError):
        about = LogHeader.from_json(scan.payloads[0])
        rows = batches.from_stream(scan.payloads[1], about.table)
        first_ns = pc.min(rows.column(tables.ORDER[about.table][-1])).as_py()
    return about, first_ns


def is_regular(path: Path) -> bool:
    """Whether PATH is a file and not a link, fifo, device or folder; False if there is nothing."""
    try:
        return stat.S_ISREG(os.lstat(path).st_mode)
    except OSError:
        return False
