"""From a capture to the store: runs the engine and appends what it yields."""

from __future__ import annotations

import hashlib
import os
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from . import __version__, privileges
from .errors import MburstError
from .stopping import stopping
from .units import NS_PER_S
from .watch import Watch

if TYPE_CHECKING:
    import signal

    import pyarrow as pa

    from .capture import Capture, Facts, Lane, Rows
    from .sql import Store

Direction = Literal["in", "out", "both"]
Stamps = Literal["auto", "hw", "sw"]
Row = dict[str, Any]

# Bits of quality: sql/schema/quality.sql; a test holds them against the engine's.
QUALITY_RING, QUALITY_FILE_US = 4, 8
STAMP_KINDS = ((1, "hardware"), (2, "software"), (QUALITY_RING, "ring"))

_FINGERPRINT_BYTES = 1 << 20  # of each end of a file


@dataclass(frozen=True)
class Recording:
    """What to record, and how. Times in nanoseconds, rates in bits a second."""

    targets: list[str]
    link_bps: int | None = None
    bin_ns: int = 100_000
    source_bin_ns: int = 1_000_000
    window_ns: int = 2_000_000
    host: str = "unknown"
    rack: str = "unknown"
    interface: str | None = None
    direction: Direction = "both"
    local: list[str] = field(default_factory=list)
    max_sources: int = 4096
    inner: bool = False
    mtu: int = -1
    spread: bool = False
    backend: str = "auto"
    filter: str = ""
    live: Live = field(default_factory=lambda: Live())


@dataclass(frozen=True)
class Live:
    """What holds for interfaces only."""

    duration_ns: int | None = None  # None: until somebody ends it
    snaplen: int = 0
    threads: int = 0
    ring_bytes: int = 0
    stamps: Stamps = "auto"
    promiscuous: bool = True
    cluster: int = 0
    force: bool = False  # record bins that the stamps are too coarse for


@dataclass
class Progress:
    """Where a recording is: the packets that are in closed bins, and the newest stamp; what is new in the store."""

    packets: int
    end_ns: int
    lanes: list[Lane]
    facts: Facts
    bins: pa.RecordBatch | None
    runs: list[Row]


def fingerprint(recording: Recording) -> str:
    """An identity of capture files and settings, so that recording them again adds nothing.

    Of each file: its size and a BLAKE2 digest of its first and last MiB. What cannot be read twice
    (a pipe) gets a random identity.
    """
    digest = hashlib.blake2b(digest_size=6)
    for name in recording.targets:
        path = Path(name)
        if not path.is_file():
            return secrets.token_hex(6)
        with path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            digest.update(f"{size}:".encode())
            digest.update(file.read(_FINGERPRINT_BYTES))
            if size > _FINGERPRINT_BYTES:
                file.seek(max(_FINGERPRINT_BYTES, size - _FINGERPRINT_BYTES))
                digest.update(file.read())
    settings = {name: value for name, value in vars(recording).items() if name not in ("targets", "live")}
    digest.update(repr(sorted(settings.items())).encode())
    return digest.hexdigest()


def already_recorded(store: Store, capture: str) -> list[Row]:
    """The rows of runs that a former, complete recording of the same capture left."""
    con = store.connect()
    try:
        rows = con.execute("SELECT * FROM recordings WHERE capture_id = ? AND complete ORDER BY recording_id",
                           [capture])
        names = [column[0] for column in rows.description]
        return [dict(zip(names, row, strict=True)) for row in rows.fetchall()]
    finally:
        con.close()


def record(
    store: Store, recording: Recording, progress: Callable[[Progress], None] | None = None
) -> list[Row]:
    """Record into `store`; returns the rows of runs, one for each interface and direction.

    An input that turns out bad is raised after all that was read before is stored, and so is
    KeyboardInterrupt on SIGINT and SIGTERM. From an interface these are how a recording ends:
    it then returns as usual.
    """
    with privileges.raised():
        capture_id = fingerprint(recording)
    known = [] if store.is_empty("recordings") else already_recorded(store, capture_id)
    return known or _Recorder(store, recording, capture_id).run(progress)


def is_live(recording: Recording) -> bool:
    """Whether the target is an interface rather than a file."""
    from .capture import device

    [name, *more] = recording.targets
    return not more and recording.backend != "file" and (
        recording.backend != "auto" or name == "any" or (device(name) is not None and not Path(name).exists())
    )


def merged_beyond(recording: Recording) -> int:
    """The size of IP packets beyond which a frame is a merged one: an interface says it, a file's is inferred."""
    from .capture import device

    if recording.mtu >= 0 or not is_live(recording):
        return recording.mtu
    found = device(recording.targets[0])
    return found["mtu"] if found else -1


def own_addresses(recording: Recording) -> list[str]:
    """--local, or else the address of the interface: libpcap does not tell sides."""
    from .capture import device

    if recording.local or not is_live(recording):
        return recording.local
    found = device(recording.targets[0])
    return [found["mac"]] if found and found["mac"] else []


def _open(*arguments: Any, **options: Any) -> Capture:
    from .capture import Capture

    with privileges.raised():
        return Capture(*arguments, **options)


class _Recorder:
    """One call of record(): the engine, the store's writers, and the lanes seen so far."""

    def __init__(self, store: Store, recording: Recording, capture_id: str) -> None:
        from .sql import new_writer

        self.recording = recording
        self.capture_id = capture_id
        self.capture: Capture = _open(
            recording.targets,
            bin_ns=recording.bin_ns,
            source_bin_ns=recording.source_bin_ns,
            window_ns=recording.window_ns,
            directions=recording.direction,
            local=own_addresses(recording),
            max_sources=recording.max_sources,
            inner=recording.inner,
            mtu=merged_beyond(recording),
            spread_bps=(recording.link_bps or 0) if recording.spread else 0,
            backend=None if recording.backend == "auto" else recording.backend,
            filter=recording.filter or None,
            snaplen=recording.live.snaplen,
            threads=recording.live.threads,
            ring_bytes=recording.live.ring_bytes,
            stamps=recording.live.stamps,
            promiscuous=recording.live.promiscuous,
            cluster=recording.live.cluster,
        )
        self.writer_id = new_writer()
        names = (recording.host, recording.rack, self.writer_id)
        self.runs = store.writer("recordings", *names)
        self.bins = store.writer("bins", *names)
        self.sources = store.writer("sources", *names)
        self.lanes: list[Lane] = []
        self.rows: list[Row] = []
        self.ended_by: list[signal.Signals] = []
        self.live = self.capture.facts["live"]
        self.watch = Watch(store, recording) if self.live else None
        privileges.drop(keep=[privileges.NET_ADMIN] if self.capture.facts["restores"] else [])

    def run(self, progress: Callable[[Progress], None] | None) -> list[Row]:
        with stopping(self.capture.stop) as self.ended_by:
            return self._read_all(progress)

    def _read_all(self, progress: Callable[[Progress], None] | None) -> list[Row]:
        failure: MburstError | None = None
        try:
            while True:
                try:
                    rows = self.capture.read()
                except MburstError as error:
                    failure = error
                    break
                if rows is None:
                    break
                bins = self._append(*rows)
                if self.watch:
                    self.watch.look(self.capture, self.lanes, bins)
                if progress:
                    progress(self._progress(bins))
            return self._finish(failure)
        finally:
            for writer in (self.bins, self.sources, self.runs, self.watch):
                if writer:
                    writer.close()
            self.capture.close()

    def _progress(self, bins: pa.RecordBatch | None) -> Progress:
        return Progress(
            sum(lane["packets"] for lane in self.lanes),
            max((lane["end_ns"] for lane in self.lanes if lane["packets"]), default=0),
            self.lanes,
            self.capture.facts,
            bins,
            self.rows,
        )

    def _append(self, bins: Rows, sources: Rows) -> pa.RecordBatch | None:
        known = len(self.lanes)
        self.lanes = self.capture.lanes
        named = self._name_lanes(bins) if len(bins) else None
        if self.watch and named is not None:
            self.watch.judge(named)
        if len(self.lanes) > known:
            self.rows += self._append_runs(range(known, len(self.lanes)), complete=False, notes=[])
        if named is not None:
            self.bins.append(named)
        if len(sources):
            self.sources.append(self._name_lanes(sources))
        return named

    def _name_lanes(self, rows: Rows) -> pa.RecordBatch:
        """The engine's rows with the text columns of the store in place of the lane's number."""
        import pyarrow as pa

        [batch] = pa.RecordBatchReader.from_stream(rows)
        lane = batch.column("lane")
        one = pa.repeat(pa.scalar(0, pa.int16()), len(batch))

        def named(index: Any, names: list[str]) -> Any:
            return pa.DictionaryArray.from_arrays(index, pa.array(names, pa.string()))

        columns = {
            "recording_id": named(lane, [self._run_id(i) for i in range(len(self.lanes))]),
            "host": named(one, [self.recording.host]),
            "rack": named(one, [self.recording.rack]),
            "interface": named(lane, [self._interface(i) for i in range(len(self.lanes))]),
            "direction": named(lane, [lane["direction"] for lane in self.lanes]),
        }
        rest = [name for name in batch.schema.names if name != "lane"]
        return pa.RecordBatch.from_arrays(
            [*columns.values(), *(batch.column(name) for name in rest)], [*columns, *rest]
        )

    def _run_id(self, lane: int) -> str:
        return f"{self.capture_id}-{lane}"

    def _interface(self, lane: int) -> str:
        described = self.lanes[lane]
        unnamed = f"{Path(self.recording.targets[0]).name.split('.')[0]}:{described['index']}"
        return self.recording.interface or described["interface"] or unnamed

    def _finish(self, failure: MburstError | None) -> list[Row]:
        self.lanes = self.capture.lanes
        notes = describe(self.capture, self.lanes)
        packets = sum(lane["packets"] for lane in self.lanes)
        if failure:
            notes.append(f"the input ended early: {failure}")
            if packets and not failure.hint:
                failure.hint = f"the {packets:,} packets before that are recorded"
        if self.watch:
            notes += self.watch.notes(packets, self.ended_by)
        elif self.ended_by:
            notes.append("the recording was interrupted")
        rows = self._append_runs(range(len(self.lanes)), complete=True, notes=notes)
        if failure:
            raise failure
        if self.ended_by and not self.watch:
            raise KeyboardInterrupt
        return rows

    def _append_runs(self, lanes: range, *, complete: bool, notes: list[str]) -> list[Row]:
        import pyarrow as pa

        rows = [self._run_row(i, complete, notes) for i in lanes]
        if rows:
            self.runs.append(pa.Table.from_pylist(rows))
        return rows

    def _run_row(self, index: int, complete: bool, notes: list[str]) -> Row:
        lane, recording, facts = self.lanes[index], self.recording, self.capture.facts
        return {
            "recording_id": self._run_id(index),
            "capture_id": self.capture_id,
            "host": recording.host,
            "rack": recording.rack,
            "interface": self._interface(index),
            "direction": lane["direction"],
            "link_bps": recording.link_bps or lane["link_bps"] or None,
            "bin_ns": recording.bin_ns,
            "source_bin_ns": recording.source_bin_ns,
            "backend": "file" if facts["backend"] == "merge" else facts["backend"],
            "input": " ".join(recording.targets),
            "filter": recording.filter,
            "snaplen": lane["snaplen"],
            "clock": stamped_by(lane["quality"], self.live) if lane["packets"] or not complete else "no packets",
            "offloads": _merged(lane["merged"], facts["mtu"]),
            "notes": "\n".join(notes),
            "start_ns": lane["start_ns"] if lane["packets"] else None,
            "end_ns": lane["end_ns"] if lane["packets"] else None,
            "clock_epochs": lane["clock_epochs"],
            "packets": lane["packets"],
            "bytes": lane["bytes"],
            "wire_bytes": lane["wire_bytes"],
            "unattributed_packets": lane["unattributed_packets"],
            "unattributed_bytes": lane["unattributed_bytes"],
            "dropped": facts["dropped"],
            "late": lane["late"],
            "late_bytes": lane["late_bytes"],
            "unparsed": lane["unparsed"],
            "quality": lane["quality"],
            "version": __version__,
            "complete": complete,
            "written_ns": time.time_ns(),
            "writer_id": self.writer_id,
            "counted_segments": None,
        }


def stamped_by(quality: int, live: bool) -> str:
    """What stamped the packets, and how finely."""
    resolution = "1 µs or coarser" if quality & QUALITY_FILE_US else "ns"
    if not live:
        return f"file, {resolution}"
    kinds = [name for bit, name in STAMP_KINDS if quality & bit]
    return f"{' and '.join(kinds) or 'kind not known'}, {resolution}"


def _merged(count: int, mtu: int) -> str:
    if not count:
        return ""
    return (f"{count:,} frames are larger than an MTU of {mtu:,}: merged by GRO or TSO; their wire bytes are "
            "reckoned from segments, their timing inside is not known")


def describe(capture: Capture, lanes: list[Lane]) -> list[str]:
    """What was inferred, and what a reader of the figures should know: one sentence each."""
    facts = capture.facts
    notes = [facts["inferred"]] if facts["inferred"] else []
    notes += facts["notice"].splitlines() if facts["notice"] else []
    if facts["foreign_packets"] > 0.05 * facts["ethernet_packets"]:
        share = 100 * facts["foreign_packets"] / facts["ethernet_packets"]
        notes.append(f"{share:.3g} % of the frames are neither from nor to the address taken as this host: "
                     "name it with --local")
    if facts["excluded_packets"]:
        notes.append(f"{facts['excluded_packets']:,} packets of the other direction were left out, as asked")
    if facts["dropped"]:
        notes.append(f"{facts['dropped']:,} packets were dropped before the capture was written: "
                     "all counts are lower bounds")
    late = sum(lane["late"] for lane in lanes) - facts["misdated"]
    if late:
        notes.append(f"{late:,} packets came too far out of order for their bin and are in none: --window widens it")
    steps = sum(lane["clock_epochs"] - 1 for lane in lanes)
    if steps:
        notes.append(f"the clock went back {steps:,} times: bins before and after are kept apart")
    if facts["folded_bins"]:
        notes.append(f"in {facts['folded_bins']:,} source bins there were more senders than fit in memory: "
                     "`other` may count one of them more than once")
    if facts["flows_unseen"]:
        notes.append("there were more flows than fit in memory: counts of flows are lower bounds")
    return notes


def seconds(row: Row) -> float:
    """How long a run of `runs` lasted."""
    return (row["end_ns"] - row["start_ns"]) / NS_PER_S if row["packets"] else 0.0
