"""Probes and queues from CSV files.

    with open_text(path) as text:
        source = CsvFile(text, "probes", path)
        summary = source.scan()
        for batch in source.read(summary):  # Arrow, with the columns of telemetry.tables
            ...

A file is read twice: `scan` checks all of it before `read` yields a row, so a bad file adds no rows. Times are Unix
nanoseconds. Any fault of a file is one MburstError with the line of the fault.
"""

from __future__ import annotations

import codecs
import csv
import gzip
import hashlib
import io
import itertools
import os
import re
import shutil
import sys
import tempfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any, BinaryIO, NamedTuple, cast

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv as arrow_csv

from .. import temporary
from ..errors import Interrupted, MburstError
from ..process import shortage
from ..units import NS_PER_S, PLAUSIBLE_NS
from .tables import NUMBER, PROBES, QUEUES, SEMANTICS, STAMP_KINDS, TEXT


class CsvKind(NamedTuple):
    """What a file can contain."""

    schema: pa.Schema
    required: tuple[str, ...]  # not empty in any row
    stamps: tuple[str, ...]
    words: tuple[str, tuple[str, ...]]  # a column that knows few words
    span: tuple[str, str]  # the columns whose least and whose greatest are a file's begin and end
    outcome: tuple[str, ...]  # columns of which rows need one, to show what happened; () if they need none
    owner: str  # whose rows they are
    example: str  # the first line and a row of the smallest useful file


KINDS = {
    "probes": CsvKind(
        PROBES,
        required=("src", "dst", "tx_ns"),
        stamps=("app_send_ns", "tx_ns", "remote_rx_ns", "remote_tx_ns", "rx_ns", "app_recv_ns"),
        words=("stamp_kind", STAMP_KINDS),
        span=("tx_ns", "tx_ns"),
        outcome=("rtt_ns", "rx_ns", "app_recv_ns", "remote_rx_ns", "lost"),
        owner="src",
        example="`src,dst,tx_ns,rtt_ns`, then `app-1,db-7,1764500000000000000,150000`",
    ),
    "queues": CsvKind(
        QUEUES,
        required=("device", "port", "queue", "window_start_ns", "ts_ns", "semantics"),
        stamps=("window_start_ns", "ts_ns", "receive_ns"),
        words=("semantics", SEMANTICS),
        span=("window_start_ns", "ts_ns"),
        outcome=(),
        owner="device",
        example="`device,port,queue,window_start_ns,ts_ns,semantics,max_bytes`, "
        "then `sw-1,eth1,0,1764500000000000000,1764500000001000000,gauge,64000`",
    ),
}

COARSER = (("seconds", NS_PER_S), ("milliseconds", 10**6), ("microseconds", 10**3))
NO_STAMP = "is not a Unix time in nanoseconds"
BLOCK_BYTES = 1 << 22
HEADER_LIMIT = 1 << 16


def other_kind(names: list[str], own: CsvKind) -> str:
    """Where a file with these columns belongs, if it is a complete file of a kind other than OWN."""
    for name, kind in KINDS.items():
        if kind is not own and set(kind.required) <= set(names) <= set(kind.schema.names):
            return f"these are the columns of {name}: `mburst import {name}`"
    return ""


@dataclass(frozen=True)
class CsvSummary:
    """The properties of a complete file."""

    batch: str  # digest of the content: the same for the same file
    rows: int
    start_ns: int | None  # None if there are no rows
    end_ns: int | None
    lost: int = 0  # probes without an answer
    one_way: bool = False  # no probe has a stamp of the way back: then to have arrived is to be answered
    backwards: int = 0  # probes that come back before they leave, by the sender's own clock
    owners: frozenset[str] = frozenset()  # whose rows they are


class CsvText:
    """The content of a file, also of one compressed with gzip, which can be read from its beginning any number of
    times.

    The file is not opened again, since the process may have given up the right to do so. Arrow reads ahead in threads
    of its own. A thread that reads through a Python object needs the interpreter, and aborts the process if it outlives
    it, so Arrow gets a stream without Python objects.
    """

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._native = pa.OSFile(f"/proc/self/fd/{file.fileno()}")
        file.seek(0)
        self._packed = file.read(2) == b"\x1f\x8b"

    @contextmanager
    def open(self) -> Iterator[BinaryIO]:
        """Open the content for Python, once at a time."""
        self._file.seek(0)
        if self._packed:
            with gzip.GzipFile(fileobj=self._file) as unpacked:
                yield cast(BinaryIO, unpacked)
        else:
            yield self._file

    def stream(self) -> pa.NativeFile:
        """Open the content for Arrow."""
        segment = self._native.get_stream(0, os.fstat(self._file.fileno()).st_size)
        return pa.CompressedInputStream(segment, "gzip") if self._packed else segment


@contextmanager
def open_text(path: str) -> Iterator[CsvText]:
    """Open the content of a file, or of standard input (`-`). Compressed content is unpacked each time it is read; only
    input that cannot seek is kept until then, as it came.

    Raises MburstError for damaged gzip, OSError for a file that cannot be opened.
    """
    if path == "-" and sys.stdin is None:
        raise MburstError("standard input is closed", "name a file, or pipe one in")
    standard = cast(io.BufferedReader, sys.stdin.buffer) if path == "-" else None
    with (
        nullcontext(standard) if standard else open(path, "rb") as stream,
        tempfile.TemporaryFile(dir=temporary.place()) as spool,
    ):
        if path == "-" or not stream.seekable():
            shutil.copyfileobj(stream, spool)
            spool.flush()
            stream = cast(io.BufferedReader, spool)
        try:
            yield CsvText(cast(BinaryIO, stream))
        except (gzip.BadGzipFile, EOFError, zlib.error) as error:
            raise MburstError(f"{path}: damaged gzip data: {error}") from None


class CsvFile:
    """A file of probes or queues. `name` is its name in messages. `stopped` is called before each part of the file; if
    it returns true, Interrupted is raised."""

    def __init__(self, text: CsvText, kind: str, name: str, stopped: Callable[[], object] = lambda: False) -> None:
        self._stopped = stopped
        self._text = text
        self._kind = KINDS[kind]
        self.name = name
        self._columns = self._read_header()

    @property
    def owner(self) -> str:
        """The column that says whose rows they are."""
        return self._kind.owner

    @property
    def compared(self) -> list[str]:
        """The columns by which two rows are the same: those of the file, without those that empty cells get from other
        cells or from the place of the row, and the protocol of probes, which `read` may be given."""
        protocol = {"protocol"} if self._kind.schema is PROBES else set()
        return sorted(protocol.union(self._columns).difference(("lost", "seq")))

    def scan(self) -> CsvSummary:
        """Check every row."""
        with self._text.open() as file:
            batch = hashlib.file_digest(file, "sha256").hexdigest()[:32]  # type: ignore[arg-type]
        answers = AnswerCounts()
        rows, starts, ends = 0, [], []
        owners: set[str] = set()
        for block in self._blocks():
            self._check(rows, block)
            rows += block.num_rows
            starts.append(pc.min(block[self._kind.span[0]]).as_py())
            ends.append(pc.max(block[self._kind.span[1]]).as_py())
            owners.update(pc.unique(block[self._kind.owner]).to_pylist())
            if self._kind.schema is PROBES:
                answers.add(block)
        if rows and self._kind.outcome and not {*self._kind.outcome}.intersection(self._columns):
            hint = f"add at least one of {', '.join(self._kind.outcome)}"
            raise MburstError(f"{self.name} has no column with a result", hint)
        return CsvSummary(
            batch,
            rows,
            start_ns=min(starts, default=None),
            end_ns=max(ends, default=None),
            lost=answers.lost(),
            one_way=answers.one_way(),
            backwards=answers.backwards,
            owners=frozenset(owners),
        )

    def read(self, summary: CsvSummary, protocol: str = "") -> Iterator[pa.RecordBatch]:
        """The rows, in the order of the file. `protocol` is that of probes which name none."""
        rows = 0
        for block in self._blocks():
            yield self._complete(block, rows, summary, protocol)
            rows += block.num_rows
        if rows != summary.rows:
            raise MburstError(f"{self.name} changed while it was read: it had {summary.rows} rows and has {rows}")

    def _read_header(self) -> list[str]:
        line = self._first_line()
        if not line:
            raise MburstError(f"{self.name} is empty", "the first line names the columns")
        try:
            text = line.decode("utf-8-sig")
        except UnicodeDecodeError:
            text = "\0"
        if line.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
            raise MburstError(f"{self.name} is UTF-16", "save it as CSV in UTF-8")
        if "\0" in text:
            raise MburstError(f"{self.name} is not a text file", "use `mburst record` for captures")
        names = [name.strip() for name in next(csv.reader(text.splitlines()[:1]), [])]
        known = self._kind.schema.names[1:]
        faults = [f"has {mark!r} between its columns in place of a comma" for mark in _separators(names, known)]
        faults += [f"has an unknown column {name[:80]!r}" for name in names if name not in known]
        faults += [f"has column {name} twice" for name in names if names.count(name) > 1]
        faults += [f"has no column {name}" for name in self._kind.required if name not in names]
        if faults:
            hint = other_kind(names, self._kind) or (
                f"the first line names the columns: {', '.join(known)}; the smallest file: {self._kind.example}"
            )
            raise MburstError(f"{self.name} {faults[0]}", hint)
        return names

    def _first_line(self) -> bytes:
        """The first line with its end, as far as there is one: of LF, CR or CR LF, as Arrow takes them."""
        with self._text.open() as file:
            return next(iter(file.read(HEADER_LIMIT).splitlines(keepends=True)), b"")

    def _blocks(self) -> Iterator[pa.RecordBatch]:
        """The rows, in parts; columns that the file lacks are NULL or empty text."""
        if not self._first_line().endswith((b"\n", b"\r")):
            return  # a header without rows, which the reader would refuse
        schema = self._kind.schema
        options = {  # on one thread, since only then an error names its row
            "read_options": arrow_csv.ReadOptions(
                use_threads=False, block_size=BLOCK_BYTES, column_names=self._columns, skip_rows=1
            ),
            "convert_options": arrow_csv.ConvertOptions(column_types=schema, null_values=[""]),
        }
        try:
            for block in arrow_csv.open_csv(self._text.stream(), **options):
                if self._stopped():
                    raise Interrupted("interrupted", "rows before that may be imported; the same command adds the rest")
                if block.num_rows:
                    lacking = {TEXT: pa.repeat("", block.num_rows)}
                    columns = [
                        block[field.name]
                        if field.name in self._columns
                        else lacking.get(field.type, pa.nulls(block.num_rows, field.type))
                        for field in schema
                    ]
                    yield pa.RecordBatch.from_arrays(columns, schema=schema)
        except pa.ArrowInvalid as error:
            raise self._explained(str(error)) from None
        except OSError as error:  # Arrow does not accept padding after gzip
            shortage.refuse(error, f"{self.name}: cannot read")
            raise MburstError(f"{self.name}: damaged gzip data: {error}") from None

    def _check(self, first: int, block: pa.RecordBatch) -> None:
        """Raises MburstError for an impossible value. `first` is the number of rows before the block."""
        faults = _faults(self._kind, block)
        if {*self._kind.outcome}.intersection(self._columns) == {"lost"}:  # else no answer states a loss
            faults = itertools.chain(faults, [("lost", block["lost"].is_null(), "is empty")])
        for column, mask, fault in faults:
            row = pc.index(mask, True).as_py()
            if row >= 0:
                value = block[column][row].as_py()
                problem = f"{column} is empty" if value in (None, "") else f"{column} {value} {fault}"
                hint = _coarser(value) if fault == NO_STAMP else ""
                raise MburstError(f"{self.name} line {self._line(first + row + 2)}: {problem}", hint)

    def _complete(self, block: pa.RecordBatch, first: int, summary: CsvSummary, protocol: str) -> pa.RecordBatch:
        """A block with all columns of the schema filled."""
        filled = {"batch": pa.repeat(summary.batch, block.num_rows)}
        if self._kind.schema is PROBES:
            filled["seq"] = pc.coalesce(block["seq"], pa.array(range(first, first + block.num_rows), NUMBER))
            filled["protocol"] = pc.if_else(pc.equal(block["protocol"], ""), protocol, block["protocol"])
            filled["lost"] = _lost(block, summary.one_way)
        else:
            filled["quality"] = block["quality"].fill_null(0)
        columns = [filled.get(name, block[name]) for name in self._kind.schema.names]
        return pa.RecordBatch.from_arrays(columns, schema=self._kind.schema)

    def _line(self, row: int) -> int:
        """The line of a row, both counted from 1 at the header; blank lines are not rows."""
        with self._text.open() as file:
            filled = (number for number, line in enumerate(file, 1) if number == 1 or line.strip(b"\r\n"))
            return next(itertools.islice(filled, row - 1, None), row)

    def _explained(self, message: str) -> MburstError:
        """The error for a message of Arrow's reader, which counts columns from 0, and rows as _line() does."""
        if found := re.search(r"column #(\d+): Row #(\d+): .* to (\w+): invalid (?:value )?(.*)", message):
            column, line, kind = self._columns[int(found[1])], self._line(int(found[2])), found[3]
            wanted = {"bool": "0 or 1", "string": "text in UTF-8"}.get(kind, "a whole number")
            is_inexact = wanted == "a whole number" and re.fullmatch(
                r"'?\d+(\.\d*)?(e\+?\d+)?'?", found[4], re.IGNORECASE
            )
            hint = "write all of its digits: a number with a point or an exponent is not exact" if is_inexact else ""
            return MburstError(f"{self.name} line {line}: {column} must be {wanted}: {found[4][:80]}", hint)
        if found := re.search(r"Row #(\d+): Expected (\d+) columns, got (\d+)", message):
            line = self._line(int(found[1]))
            return MburstError(f"{self.name} line {line} has {found[3]} fields, the first line has {found[2]}")
        return MburstError(f"{self.name} is not a CSV file: {message.splitlines()[0][:200]}")


def _separators(names: list[str], known: list[str]) -> list[str]:
    """Returns the character that separates known columns in a first line without commas, if there is one."""
    return [mark for mark in ";\t|" if len(names) == 1 and set(known).intersection(names[0].split(mark)[1:])]


class AnswerCounts:
    """Counts the answered probes, before it is known what an answer is in this file."""

    def __init__(self) -> None:
        self.backwards = 0
        self._answered = 0
        self._lost = {False: 0, True: 0}  # by one_way

    def add(self, block: pa.RecordBatch) -> None:
        self._answered += _count(_answered(block))
        pairs = (("rx_ns", "tx_ns"), ("app_recv_ns", "app_send_ns"))
        reverse, within = (pc.less(block[end], block[begin]).fill_null(False) for end, begin in pairs)
        self.backwards += _count(pc.or_(reverse, within))
        for one_way in self._lost:
            self._lost[one_way] += _count(_lost(block, one_way))

    def one_way(self) -> bool:
        return not self._answered

    def lost(self) -> int:
        return self._lost[self.one_way()]


def _answered(block: pa.RecordBatch) -> Any:
    taken = [block[name].is_valid() for name in ("rx_ns", "app_recv_ns", "rtt_ns")]
    return pc.or_(pc.or_(taken[0], taken[1]), taken[2])


def _lost(block: pa.RecordBatch, one_way: bool) -> Any:
    """Whether each probe was lost: as the file states, or otherwise if it has no stamp of an answer."""
    heard = block["remote_rx_ns"].is_valid() if one_way else _answered(block)
    return pc.coalesce(block["lost"], pc.invert(heard))


def _count(mask: Any) -> int:
    return pc.sum(mask).as_py() or 0


def _faults(kind: CsvKind, block: pa.RecordBatch) -> Iterator[tuple[str, Any, str]]:
    """Yields (column, mask of the faulty rows, reason)."""
    for name in kind.required:
        yield name, pc.equal(block[name], "") if block[name].type == TEXT else block[name].is_null(), "is empty"
    name, words = kind.words
    yield name, pc.invert(pc.is_in(block[name], pa.array(words))), f"is not one of {', '.join(filter(None, words))}"
    for name in kind.stamps:
        early, late = pc.less(block[name], PLAUSIBLE_NS[0]), pc.greater_equal(block[name], PLAUSIBLE_NS[1])
        yield name, pc.or_(early, late), NO_STAMP
    for field in kind.schema:
        if field.type == NUMBER and field.name not in (*kind.stamps, "seq"):
            yield field.name, pc.less(block[field.name], 0), "is negative"
    if kind.schema is QUEUES:
        yield "ts_ns", pc.less(block["ts_ns"], block["window_start_ns"]), "is before window_start_ns"


def _coarser(value: int) -> str:
    """A hint on the unit that a stamp may have instead."""
    for unit, factor in COARSER:
        if PLAUSIBLE_NS[0] <= value * factor < PLAUSIBLE_NS[1]:
            return f"it looks like {unit}"
    return "leave a stamp that was not taken empty"
