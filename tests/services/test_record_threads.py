"""`mburst record FILE --threads N`: the thread that reads ahead changes no byte of the store, and ends with the
recording."""

from __future__ import annotations

import gzip
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from captures import SAMPLE, recorded_wild
from frames import START_NS, Frame, pcap, write_pcap
from hypothesis import given, settings
from hypothesis import strategies as st
from killed_recorder import InPieces

import mburst.capture
from mburst.api.recording import record
from mburst.capture import Capture
from mburst.errors import MburstError
from mburst.services.record import recorder
from mburst.services.record.reading import AHEAD, AheadReader, Reader
from mburst.sql import StoreFolder
from mburst.sql.writer import TableWriter

OF_THE_CALL = ("written_ns", "begun_ns", "writer_id")  # columns of `recordings`


@dataclass(frozen=True)
class Kept:
    """The result of a recording: how it failed, and the rows of each table in the order of its files."""

    failure: str
    rows: dict[str, pa.Table]


def kept_of(store: Path, failure: str) -> Kept:
    kept = {}
    for table in ("bins", "sources", "recordings"):
        parts = [pq.ParquetFile(path).read() for path in sorted(store.glob(f"{table}/*/*/*.parquet"))]
        rows = pa.concat_tables(parts) if parts else pa.table({})
        kept[table] = rows.drop_columns([name for name in OF_THE_CALL if name in rows.schema.names])
    with StoreFolder.open(store).connect() as con:
        assert con.execute("FROM damaged_files").fetchall() == []
    return Kept(failure, kept)


def recorded(targets: list[Path], store: Path, threads: int) -> Kept:
    failure = ""
    StoreFolder.create(store)  # so that the store exists even if nothing is stored
    try:
        record(targets, store, threads=threads, bin="10us", link="1G")
    except MburstError as error:
        failure = f"{error} ({error.hint})"
    assert readers() == []
    return kept_of(store, failure)


def readers() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "mburst-read"]


@pytest.fixture
def small_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes captures yield a few rows at a time, and gives all recordings one fingerprint, so that recordings of files
    and of pipes compare equal."""
    monkeypatch.setattr(mburst.capture, "Capture", InPieces)
    monkeypatch.setattr(recorder, "fingerprint", lambda recording: "0123456789ab")


def fed(folder: Path, data: bytes) -> tuple[Path, threading.Thread]:
    """Returns a pipe, and the thread that writes DATA into it."""
    pipe = folder / "pipe"
    os.mkfifo(pipe)

    def write() -> None:
        with suppress(BrokenPipeError), pipe.open("wb", buffering=0) as end:  # a damaged pcap may end reading early
            for at in range(0, len(data), 5000):
                end.write(data[at : at + 5000])

    writer = threading.Thread(target=write)
    writer.start()
    return pipe, writer


frames = st.lists(
    st.builds(
        Frame,
        ts_ns=st.integers(0, 3_000_000_000).map(lambda ns: START_NS + ns),
        sender=st.integers(0, 400),
        size=st.integers(60, 1514),
        flow=st.integers(0, 3),
        sequence=st.one_of(st.none(), st.integers(0, 9000)),
        outgoing=st.booleans(),
    ),
    max_size=300,
)


@pytest.mark.usefixtures("small_turns")
@settings(max_examples=20, deadline=None)
@given(
    captures=st.lists(frames, min_size=1, max_size=3),
    in_order=st.booleans(),
    kind=st.sampled_from(["plain", "gzip", "pipe"]),
    cut=st.one_of(st.just(0), st.integers(1, 500)),
    trains=st.booleans(),
)
def test_the_same_bytes(tmp_path_factory, captures, in_order, kind, cut, trains) -> None:
    """Of random captures: several files as one, compressed, from a pipe, in and out of order, with damaged ends."""
    folder = tmp_path_factory.mktemp("record")
    contents = [pcap(sorted(one, key=lambda frame: frame.ts_ns) if in_order else one) for one in captures]
    contents[-1] = contents[-1][: max(1, len(contents[-1]) - cut)]
    packed = [gzip.compress(one) if kind == "gzip" else one for one in contents]
    paths = [folder / f"{number}.pcap" for number in range(len(packed))]
    for path, one in zip(paths, packed, strict=True):
        path.write_bytes(one)
    kept = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MBURST_TRAINS", "on" if trains else "off")
        for threads in (1, 2):
            targets, writer = paths, threading.Thread()
            if kind == "pipe":
                pipe, writer = fed(folder, packed[0])
                targets = [pipe, *paths[1:]]
            kept.append(recorded(targets, folder / f"store-{threads}", threads))
            if kind == "pipe":
                writer.join()
                pipe.unlink()
    assert kept[0] == kept[1]


def turns(reader: Reader) -> Iterator[Any]:
    """Yields all turns of READER as values, then its failure if any, and its final state."""
    try:
        while turn := reader.read():
            yield pa.table(turn.bins), pa.table(turn.sources), turn.lanes, turn.facts
    except MburstError as error:
        yield str(error)
    yield reader.capture.lanes, reader.capture.facts
    reader.close()


def test_every_wild_capture_gives_the_same_rows() -> None:
    for path in [SAMPLE.file("cache.pcap"), *recorded_wild()]:
        try:
            one, two = (kind(Capture([str(path)])) for kind in (Reader, AheadReader))
        except MburstError:
            continue
        assert list(turns(one)) == list(turns(two)), path


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A file of a hundred bins with a packet each in a turn, and of more turns than may wait."""
    spread = [Frame(START_NS + number * 100_000, number % 50, 100) for number in range(100 * (AHEAD + 12))]
    return write_pcap(tmp_path / "cache.pcap", spread)


def test_reading_ahead_is_bounded(file: Path) -> None:
    taken, full = [], threading.Event()

    class Counted(InPieces):
        def read(self) -> Any:
            taken.append(1)
            if len(taken) == AHEAD + 1:
                full.set()
            return super().read()

    reader = AheadReader(Counted([str(file)]))
    assert full.wait(60)
    for number in range(AHEAD + 5):
        assert reader.read() is not None
        assert len(taken) <= number + AHEAD + 2
    reader.close()
    reader.close()
    assert readers() == []


@pytest.mark.usefixtures("small_turns")
@pytest.mark.parametrize("failure", [MburstError("full"), KeyboardInterrupt(), MemoryError()])
@pytest.mark.parametrize("turn", [0, 3, AHEAD + 3])
def test_a_failure_to_store_is_raised_once(
    file: Path, tmp_path: Path, monkeypatch, failure: BaseException, turn: int
) -> None:
    """The failure may be at any turn, while the thread reads or waits. The thread has ended, and the rows stored before
    are kept."""
    append, waiting = recorder.Recorder._append, iter(range(turn))

    def failing(self: Any, of: Any) -> Any:
        if next(waiting, None) is None:
            raise failure
        return append(self, of)

    monkeypatch.setattr(recorder.Recorder, "_append", failing)
    StoreFolder.create(tmp_path / "store")  # so that the store exists even if nothing is stored
    with pytest.raises(type(failure)) as raised:
        record(file, tmp_path / "store", threads=2)
    assert raised.value is failure and readers() == []
    with StoreFolder.open(tmp_path / "store").connect() as con:
        assert con.execute("SELECT coalesce(sum(packets), 0) FROM bins").fetchone() == (100 * turn,)
        assert con.execute("SELECT sum(packets) FROM recordings").fetchone() == ((100 * turn,) if turn else (None,))


@pytest.mark.usefixtures("small_turns")
def test_a_later_failure_does_not_hide_the_first(file: Path, tmp_path: Path, monkeypatch) -> None:
    """For example, there may be no memory for a thread, and then none to seal the remaining rows."""
    failure, close = RuntimeError("can't start new thread"), TableWriter.close

    def storing(self: Any, of: Any) -> Any:
        raise failure

    def closing(self: Any) -> None:
        close(self)
        raise SystemError("error return without exception set")

    monkeypatch.setattr(recorder.Recorder, "_append", storing)
    monkeypatch.setattr(TableWriter, "close", closing)
    with pytest.raises(RuntimeError) as raised:
        record(file, tmp_path / "store", threads=2)
    assert raised.value is failure and readers() == []


@pytest.mark.usefixtures("small_turns")
@pytest.mark.parametrize("failure", [MemoryError(), RuntimeError("unforeseen")])
def test_a_failure_to_read_is_raised_once(file: Path, tmp_path: Path, monkeypatch, failure: BaseException) -> None:
    """The rows that were read before are stored."""
    read, left = InPieces.read, iter(range(4))

    def failing(self: Any) -> Any:
        if next(left, None) is None:
            raise failure
        return read(self)

    monkeypatch.setattr(InPieces, "read", failing)
    with pytest.raises(type(failure)) as raised:
        record(file, tmp_path / "store", threads=2)
    assert raised.value is failure and readers() == []
    with StoreFolder.open(tmp_path / "store").connect() as con:
        assert con.execute("SELECT sum(packets) FROM bins").fetchone() == (400,)


def test_reading_ahead_ends_if_the_file_was_already_recorded(file: Path, tmp_path: Path) -> None:
    """The thread begins before it is known that all rows are already stored."""
    assert record(file, tmp_path / "store", threads=2).new
    assert not record(file, tmp_path / "store", threads=1).new  # --threads does not make it another recording
    assert readers() == []


def test_slow_imports_are_not_done_before_reading(file: Path, tmp_path: Path) -> None:
    """Modules that a recording of a file does not need are not imported at all: start and end take most of the time of
    a short recording."""
    words = ["record", str(file), "-o", str(tmp_path / "store"), "--threads", "2"]
    program = f"""
import sys
from mburst.__main__ import command
from mburst.services.record import recorder

met, begins = [], recorder.AheadReader.__init__

def noting(self, capture):
    met.extend({{"numpy", "pyarrow", "duckdb"}} & sys.modules.keys())
    begins(self, capture)

recorder.AheadReader.__init__ = noting
sys.argv[1:] = {words}
assert command() == 0 and not met, met
unused = {{"duckdb", "numpy.ma", "pyarrow.compute", "concurrent.futures"}} & sys.modules.keys()
assert "pyarrow.parquet" in sys.modules and not unused, unused
"""
    subprocess.run([sys.executable, "-c", program], check=True)


def test_threads_are_at_least_one(file: Path, tmp_path: Path) -> None:
    with pytest.raises(MburstError, match="--threads must be at least 1, not 0"):
        record(file, tmp_path / "store", threads=0)
