"""Reads stores of format 1, as mburst wrote them up to commit f767ba1.

A segment has an id, `HOST-START-PROCESS-CHANCE` (percent-encoded host, Unix nanoseconds, decimal, hexadecimal). It is
hot (`hot/TABLE/ID.arrows`, an Arrow IPC stream, whose end may be torn) or sealed
(`TABLE/date=…/rack=RACK/ID.N.parquet`). While the hot form exists, the sealed one does not count. No file has a
checksum.
"""

from __future__ import annotations

import fcntl
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote

from ...errors import MburstError
from ...files import plain_name
from .. import disk
from ..format.filenames import HOT, rack_of

if TYPE_CHECKING:
    import pyarrow as pa

FORMAT = 1
BATCH = 1 << 18  # rows that are in memory at a time

# Tables of this format that have another name now.
TABLES = {"runs": "recordings", "leaves": "gnmi_values", "collection": "gnmi_events"}
COLUMNS = {"run": "recording_id", "capture": "capture_id", "epoch": "clock_epoch", "epochs": "clock_epochs"}

_SEGMENT = re.compile(r"(?P<host>[^/]*)-(?P<start>\d{20})-(?P<process>\d+)-[0-9a-f]{8}", re.ASCII)


@dataclass(frozen=True)
class OldFile:
    """A file with rows. `table` is the present name of the table; `rack` is '' for a hot log, which has the rack in its
    rows."""

    path: Path
    table: str
    segment: str
    is_hot: bool
    host: str
    start_ns: int
    process: int
    rack: str


class Unreadable(Exception):
    """The file does not hold what format 1 writes; the message is one line."""


def files(store: Path) -> list[OldFile]:
    """Returns the files that count, by table and then by the time at which they were begun. Raises OSError."""
    tables = [path.name for folder in (store, store / HOT) for path in _folders(folder) if path.name != HOT]
    return [file for table in sorted(set(tables)) for file in _files_of(store, table)]


def _files_of(store: Path, table: str) -> list[OldFile]:
    hot = [_file(path, table, True) for path in _regular(store / HOT / table, ".arrows")]
    sealed = [
        _file(path, table, False)
        for date in _folders(store / table)
        for rack in _folders(date)
        for path in _regular(rack, ".parquet")
    ]
    hidden = {file.segment for file in hot}
    found = [*hot, *(file for file in sealed if file.segment not in hidden)]
    return sorted(found, key=lambda file: (file.start_ns, str(file.path)))


def _file(path: Path, table: str, is_hot: bool) -> OldFile:
    segment = path.stem if is_hot else re.sub(r"\.\d+$", "", path.stem)
    match = _SEGMENT.fullmatch(segment)
    host, start, process = (match["host"], match["start"], match["process"]) if match else ("", "0", "0")
    rack = "" if is_hot else rack_of(path.parent.name)
    return OldFile(path, TABLES.get(table, table), segment, is_hot, unquote(host), int(start), int(process), rack)


def _folders(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if path.is_dir()) if folder.is_dir() else []


def _regular(folder: Path, suffix: str) -> list[Path]:
    return sorted(path for path in folder.iterdir() if path.suffix == suffix) if folder.is_dir() else []


def check_no_writer(file: OldFile) -> None:
    """Raises MburstError if the writer of a hot log lives."""
    descriptor = disk.open_regular(file.path)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        raise MburstError(f"{file.path}: is being written", "end the recorders of that store first") from None
    finally:
        os.close(descriptor)


def rack_in(file: OldFile) -> str:
    """The rack whose rows the file has. Raises Unreadable."""
    import pyarrow as pa

    if not file.is_hot:
        return file.rack
    with _reading(file), pa.memory_map(str(file.path)) as source:
        if source.size() == 0:
            return ""
        return ((pa.ipc.open_stream(source).schema.metadata or {}).get(b"rack") or b"").decode()


def batches(file: OldFile) -> Iterator[pa.Table]:
    """Yields the rows, at most BATCH at a time, under the present names of columns. Raises Unreadable."""
    import pyarrow as pa

    with _reading(file):
        for batch in (_hot if file.is_hot else _sealed)(file.path):
            for start in range(0, batch.num_rows, BATCH):
                rows = pa.Table.from_batches([batch.slice(start, BATCH)])
                rows.validate(full=True)  # the only protection between a flipped bit and a crash
                yield rows.rename_columns([COLUMNS.get(name, name) for name in rows.column_names])


class _reading:
    """Turns errors of the system and of Arrow inside into Unreadable, in one line."""

    def __init__(self, file: OldFile) -> None:
        self._file = file

    def __enter__(self) -> None:
        try:
            os.close(disk.open_regular(self._file.path))
        except OSError as error:
            raise Unreadable(error.strerror or str(error)) from error

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        import pyarrow as pa

        if isinstance(error, pa.ArrowException | OSError | UnicodeDecodeError | IndexError | ValueError):
            disk.refuse_shortage(error, self._file.path)
            raise Unreadable((str(error).splitlines() or [type(error).__name__])[0]) from error


def _hot(path: Path) -> Iterator[pa.RecordBatch]:
    """The complete batches of a log. A batch that its writer was killed in was never acknowledged; anything else that
    cannot be read is an error."""
    import pyarrow as pa

    with pa.memory_map(str(path)) as source:
        if source.size() == 0:  # the machine died before the header was on the disk
            return
        stream = pa.ipc.open_stream(source)
        while True:
            try:
                batch = stream.read_next_batch()
            except StopIteration:
                if source.tell() < source.size():
                    raise pa.ArrowInvalid(f"the log goes on behind its end at byte {source.tell():,}") from None
                return
            except (pa.ArrowInvalid, OSError):
                if source.tell() < source.size():
                    raise
                return
            yield batch


def _sealed(path: Path) -> Iterator[pa.RecordBatch]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    with pq.ParquetFile(plain_name(path)) as content:
        texts = [field.name for field in content.schema_arrow if pa.types.is_string(field.type)]
    with pq.ParquetFile(plain_name(path), read_dictionary=texts) as content:
        yield from content.iter_batches(BATCH)
