"""Switch ports as recorded interfaces: a row of `recordings` for each port and direction, followed by its bins.

Each rack of a collection has one lock and one capture, so that what a killed collector left is completed like the
recordings of hosts (mburst/services/record/recovery.py)."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from .. import __version__
from ..errors import MburstError
from ..messages import print_error
from ..telemetry.otlp.port_bins import SwitchLane
from .record import gaps
from .record.rows import WrittenTimes

if TYPE_CHECKING:
    import pyarrow as pa

    from ..sql import StoreFolder

NOTHING = dict.fromkeys(("packets", "unattributed_packets", "unattributed_bytes", "dropped", "late", "late_bytes"), 0)
NOTE = (
    "running totals of a switch port, sampled: senders and packets are not known, and wire bytes are the bytes of the "
    "frames alone, a lower bound"
)
UNSURE = "samples too uneven to be sure of their interval: the bins have the most likely one"
UNKNOWN = "not known how many bytes: what the collector had not stored yet is lost"


@dataclass(frozen=True)
class SampledSpan:
    """The bin width and link speed of a lane, and the time in which it was sampled, idle or not, in whole bins."""

    bin_ns: int
    is_sure: bool  # no other width fits the samples as well
    link_bps: int | None
    start_ns: int
    end_ns: int


@dataclass
class _RackCapture:
    """The capture of one rack: its writers and counts."""

    rack: str
    capture_id: str
    writer_id: str
    lock: Any
    recordings: Any
    bins: Any
    gaps: Any
    tally: Any
    numbers: dict[SwitchLane, int] = field(default_factory=dict)  # number of each lane's recording
    held: dict[str, Any] = field(default_factory=dict)  # totals of the first `counted` segments of bins
    counted: int = 0
    begun_ns: int = 0
    times: WrittenTimes = field(default_factory=WrittenTimes)


class PortRecordings:
    """Stores bins and gaps of lanes, from one thread. RACK_OF returns the rack of a device, LANES has all sampled
    lanes, also idle ones, and SPAN_OF returns the time for which a lane was sampled until now."""

    def __init__(
        self,
        store: StoreFolder,
        rack_of: Callable[[str], str],
        lanes: Collection[SwitchLane],
        span_of: Callable[[SwitchLane], SampledSpan],
        source: str,
    ) -> None:
        self._store, self._rack_of, self._lanes, self._span_of, self._source = store, rack_of, lanes, span_of, source
        self._known = 0  # number of lanes that have a row
        self._open: dict[tuple[str, str, str], list[dict[str, Any]]] = {}  # gaps behind killed recordings
        self._over: list[dict[str, Any]] = []  # gaps that have an end now, but no row with it yet
        self._captures: dict[str, _RackCapture] = {}

    def append(self, table: str, rows: pa.RecordBatch) -> None:
        """Store rows of `bins` or `gaps` that have the column `lane` instead of the columns that name a recording.
        Raises MburstError."""
        import pyarrow as pa
        import pyarrow.compute as pc

        names = [SwitchLane.of(text) for text in rows.column("lane").dictionary.to_pylist()]
        racks = [self._rack_of(name.device) for name in names]
        for rack in dict.fromkeys(racks):
            chosen = pc.take(pa.array([one == rack for one in racks]), rows.column("lane").indices)
            self._append_of(self._capture(rack), table, rows.filter(chosen), names)
        self._add_lanes()

    def _add_lanes(self) -> None:
        """Add a row for each lane without one: a sampled lane counts as recorded even if it is idle."""
        if len(self._lanes) > self._known:
            lanes = list(self._lanes)  # a copy: other threads may add lanes
            for name in lanes:
                self._recording(self._capture(self._rack_of(name.device)), name)
            self._known = len(lanes)
        over, self._over = self._over, []
        for rack in {gap["rack"] for gap in over}:
            gaps.append(self._store, [gap for gap in over if gap["rack"] == rack])

    def _append_of(self, capture: _RackCapture, table: str, rows: pa.RecordBatch, names: list[SwitchLane]) -> None:
        ids = [self._recording(capture, name) if self._rack_of(name.device) == capture.rack else "" for name in names]
        named = _named(rows, ids, names, capture.rack)
        if table == "gaps":
            capture.gaps.append(named)
            return
        before = dict(capture.tally.totals)
        capture.bins.append(named)
        capture.tally.add(named)
        if capture.bins.segments - 1 > capture.counted:
            capture.held, capture.counted = before, capture.bins.segments - 1
            self._append_rows(capture, list(capture.numbers))

    def _capture(self, rack: str) -> _RackCapture:
        if (found := self._captures.get(rack)) is not None:
            return found
        from ..sql import locks, new_writer
        from .record import recovery
        from .record.tally import BinTally

        if not self._captures:
            recovery.tidy(self._store, print_error)
            for gap in gaps.still_open(self._store):
                self._open.setdefault((gap["host"], gap["interface"], gap["direction"]), []).append(gap)

        capture_id, writer_id = secrets.token_hex(6), new_writer()
        lock = locks.acquire(self._store.path, capture_id)
        assert lock is not None  # the id is random, so no other process has the lock
        lock.begin({"rows": []})
        recordings, bins, missed = (
            self._store.writer(table, rack=rack, writer_id=writer_id) for table in ("recordings", "bins", "gaps")
        )
        made = _RackCapture(
            rack, capture_id, writer_id, lock, recordings, bins, missed, BinTally(), begun_ns=time.time_ns()
        )
        self._captures[rack] = made
        return made

    def _recording(self, capture: _RackCapture, name: SwitchLane) -> str:
        """Returns the recording_id of a lane. Its row is stored before its first bin."""
        if name not in capture.numbers:
            capture.numbers[name] = len(capture.numbers)
            self._append_rows(capture, [name])
            begun_ns = self._span_of(name).start_ns
            self._over += [
                gap | {"end_ns": max(begun_ns, gap["start_ns"]), "detail": UNKNOWN}
                for gap in self._open.pop((name.device, name.port, name.direction), ())
            ]
        return f"{capture.capture_id}-{capture.numbers[name]}"

    def _append_rows(self, capture: _RackCapture, names: list[SwitchLane], ended: str = "") -> None:
        import pyarrow as pa

        totals = capture.tally.totals if ended else capture.held
        rows = [self._row(capture, name, totals, ended) for name in names]
        capture.recordings.append(pa.Table.from_pylist(rows))

    def _row(self, capture: _RackCapture, name: SwitchLane, totals: Mapping[str, Any], ended: str) -> dict[str, Any]:
        recording_id = f"{capture.capture_id}-{capture.numbers[name]}"
        held, span = totals.get(recording_id), self._span_of(name)
        return NOTHING | {
            "recording_id": recording_id,
            "capture_id": capture.capture_id,
            "host": name.device,
            "rack": capture.rack,
            "interface": name.port,
            "direction": name.direction,
            "link_bps": span.link_bps,
            "bin_ns": span.bin_ns,
            "source_bin_ns": span.bin_ns,
            "backend": "otlp",
            "input": self._source,
            "filter": "",
            "snaplen": 0,
            "clock": "the switch, ns",
            "offloads": "",
            "notes": NOTE if span.is_sure else f"{NOTE}\n{UNSURE}",
            "start_ns": span.start_ns,
            "end_ns": span.end_ns - 1 if ended else None,
            "clock_epochs": 1,
            "bytes": held.bytes if held else 0,
            "wire_bytes": held.wire_bytes if held else 0,
            "unparsed": None,
            "quality": held.quality if held else 0,
            "version": __version__,
            "complete": ended == "stopped",
            "written_ns": capture.times.next_ns(),
            "writer_id": capture.writer_id,
            "counted_segments": None if ended else capture.counted,
            "begun_ns": capture.begun_ns,
            "ended": ended,
        }

    def close(self) -> None:
        """Seal all segments and end the recordings. Raises the first MburstError, after trying all."""
        failure: MburstError | None = None
        try:
            self._add_lanes()
        except MburstError as error:
            failure = error
        for capture in self._captures.values():
            try:
                self._end(capture)
            except MburstError as error:
                failure = failure or error
                with suppress(OSError):
                    capture.lock.leave()
        if failure:
            raise failure

    def _end(self, capture: _RackCapture) -> None:
        capture.bins.close()
        capture.gaps.close()
        self._append_rows(capture, list(capture.numbers), "stopped")
        capture.recordings.close()
        capture.lock.end()


def _named(rows: pa.RecordBatch, ids: list[str], names: list[SwitchLane], rack: str) -> pa.RecordBatch:
    """Returns ROWS with the columns that name a recording."""
    import pyarrow as pa

    indices = rows.column("lane").indices
    texts = {
        "recording_id": ids,
        "host": [name.device for name in names],
        "rack": [rack for _ in names],
        "interface": [name.port for name in names],
        "direction": [name.direction for name in names],
    }
    columns = {
        column: pa.DictionaryArray.from_arrays(indices, pa.array(listed, pa.string()))
        for column, listed in texts.items()
    }
    rest = [name for name in rows.schema.names if name not in ("lane", "device")]
    return pa.RecordBatch.from_arrays([*columns.values(), *(rows.column(name) for name in rest)], [*columns, *rest])
