"""The OTLP part of a collection: its intake, the tables for its rows, and its reports."""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from ..otlp_receiver.receiver import OtlpReceiver
from ..otlp_receiver.refusals import DEFERRED, NOT_UNDERSTOOD, REFUSED, Refusals
from ..process import privileges
from ..telemetry.otlp.intake import Intake
from ..telemetry.otlp.lanes import Missed
from ..telemetry.otlp.meanings import meanings
from ..telemetry.otlp.port_bins import SwitchLane, bin_rows
from ..telemetry.otlp.speeds import Speeds
from ..telemetry.tables import text_column
from ..units import format_count
from .port_recordings import PortRecordings, SampledSpan

if TYPE_CHECKING:
    from ..sql import StoreFolder
    from ..telemetry.gnmi.config import CollectConfig

MOST_GAPS = 10_000  # most rows of `gaps` at a time
STORE_TOO_SLOW = "store too slow"
SUBSCRIPTION = "otlp"  # as in `gnmi_events`
MOST_REASONS = 5
TOO_SLOW = "the store was too slow"
# For messages: singular and plural of what was counted → its events.
POINTS = {
    ("point refused", "points refused"): ("not-understood",),
    ("point without a meaning", "points without a meaning"): ("not-mapped",),
    ("point dropped", "points dropped"): ("dropped",),
}
MESSAGES = {
    ("message or connection refused", "messages or connections refused"): (REFUSED, NOT_UNDERSTOOD),
    ("message deferred", "messages deferred"): (DEFERRED,),
}


class OtlpCollection:
    """The intake for a configuration. BATCH is the batch of its rows."""

    def __init__(self, config: CollectConfig, batch: str, seen: Callable[..., None] | None = None) -> None:
        assert config.otlp is not None
        self._config, self._batch = config.otlp, batch
        self._racks = {link.device: link.rack for link in config.links} | dict(config.otlp.racks)
        known = {(link.device, link.port): link.link_bps for link in config.links if link.link_bps}
        self._missed: deque[tuple[SwitchLane, Missed]] = deque()  # gaps without a row yet
        with privileges.raised():  # as for the configuration file that names the tables
            tables = meanings(config.otlp.tables)
        self.intake = Intake(tables, batch, Speeds(known, config.otlp.link_bps), seen)
        self._points: Counter[tuple[str, str]] = Counter()  # (event, detail) of all devices since the start
        self._messages: Counter[tuple[str, str]] = Counter()
        self._refusals: Refusals | None = None

    def receiver(self, full: Callable[[], bool], say: Callable[[str], None]) -> OtlpReceiver:
        """Returns the receiver that fills the intake. Raises MburstError."""
        made = OtlpReceiver(self._config, self.intake, lambda: full() or self.is_behind, say)
        self._refusals = made.refusals
        return made

    @property
    def refused_messages(self) -> int:
        """The number of refused messages and connections of senders."""
        return self._refusals.total if self._refusals else 0

    @property
    def is_behind(self) -> bool:
        """Whether so many gaps wait for their rows that senders should wait too."""
        return len(self._missed) > MOST_GAPS

    def recordings(self, store: StoreFolder) -> PortRecordings:
        """Returns the object that stores the bins of switch ports."""
        lanes = self.intake.ports.lanes
        source = self._config.listen or self._config.http
        return PortRecordings(store, self._rack_of, lanes, self._span_of, source)

    def _rack_of(self, device: str) -> str:
        return self._racks.get(device, "unknown")

    def _span_of(self, name: SwitchLane) -> SampledSpan:
        lane = self.intake.ports.lanes[name]
        return SampledSpan(lane.bin_ns, lane.is_sure, lane.link_bps, lane.begin_ns, lane.end_ns)

    def take(self, everything: bool) -> Iterator[tuple[str, pa.RecordBatch]]:
        """Yields (table, rows) of the points that are due, or of all points if EVERYTHING is true."""
        taken = self.intake.take(everything)
        yield from taken.rows
        if taken.bins:
            yield "bins", bin_rows(taken.bins, {name: self._span_of(name).bin_ns for name, _ in taken.bins})
        self._missed += taken.missed
        while self._missed:
            yield "gaps", _gap_rows([self._missed.popleft() for _ in range(min(MOST_GAPS, len(self._missed)))])
            if not everything:
                break  # the next call yields the rest

    def gaps_of(self, table: str, rows: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Yields rows of `gaps` for rows of bins that were not stored."""
        if table != "bins":
            return
        ts_ns, amount = rows.column("ts_ns").to_numpy(), rows.column("bytes").to_numpy()
        lanes = rows.column("lane")
        found = []
        for code, text in enumerate(lanes.dictionary.to_pylist()):
            at, name = lanes.indices.to_numpy() == code, SwitchLane.of(text)
            if at.any():
                end_ns = int(ts_ns[at].max()) + self._span_of(name).bin_ns
                found.append((name, Missed(int(ts_ns[at].min()), end_ns, int(amount[at].sum()), STORE_TOO_SLOW)))
        yield _gap_rows(found)

    def lose(self, lost: Counter[str]) -> None:
        """Count dropped rows by device."""
        for device, number in lost.items():
            self.intake.count(device, "dropped", TOO_SLOW, number)

    def events(self) -> Iterator[dict[str, Any]]:
        """Yields rows of `gnmi_events` for what was counted since the last call."""
        points, messages = self.intake.counted(), self._refusals.taken() if self._refusals else Counter()
        for counted, totals in ((points, self._points), (messages, self._messages)):
            for (_, event, detail), amount in counted.items():
                totals[event, detail] += amount
        for (device, event, detail), amount in (points + messages).items():
            yield {
                "batch": self._batch, "device": device, "subscription": SUBSCRIPTION, "ts_ns": time.time_ns(),
                "until_ns": None, "event": event, "amount": amount, "detail": detail,
            }  # fmt: skip

    def not_stored(self) -> list[str]:
        """Returns what was not stored until the last call of `events`: a line for each kind, with its reasons."""
        lines = []
        for totals, kinds in ((self._points, POINTS), (self._messages, MESSAGES)):
            for what, events in kinds.items():
                reasons = Counter[str]()
                for (event, detail), amount in totals.items():
                    if event in events and detail != TOO_SLOW:  # the writer counts those
                        reasons[detail] += amount
                if reasons:
                    listed = ", ".join(f"{amount:,} {reason}" for reason, amount in reasons.most_common(MOST_REASONS))
                    more = ", and others" if len(reasons) > MOST_REASONS else ""
                    lines.append(f"{format_count(reasons.total(), *what)}: {listed}{more}")
        return lines


def _gap_rows(found: list[tuple[SwitchLane, Missed]]) -> pa.RecordBatch:
    """Returns rows of gaps, with `lane` instead of the columns that name a recording."""
    columns = {
        "lane": text_column([name.text for name, _ in found], np.arange(len(found))),
        "device": text_column([name.device for name, _ in found], np.arange(len(found))),
        "start_ns": pa.array([missed.start_ns for _, missed in found], pa.int64()),
        "end_ns": pa.array([missed.end_ns for _, missed in found], pa.int64()),
        "reason": pa.array([missed.reason for _, missed in found]),
        "packets": pa.nulls(len(found), pa.int64()),
        "bytes": pa.array([missed.bytes for _, missed in found], pa.int64()),
        "detail": pa.array([""] * len(found)),
    }
    return pa.RecordBatch.from_arrays(list(columns.values()), list(columns))
