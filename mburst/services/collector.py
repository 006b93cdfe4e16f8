"""Collects from many switches into a store. Sessions run in one event loop, a thread reads for each subscription, and
one thread writes.

Reading never waits for the disk: rows wait in a bounded queue. Rows that do not fit are dropped, counted by device, and
reported in `gnmi_events`, while the streams are still read.
"""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..errors import MburstError
from ..process import alive, privileges
from ..process.stopping import stopping
from .background import BackgroundWriter

if TYPE_CHECKING:
    import pyarrow as pa

    from ..sql import StoreFolder
    from ..telemetry.gnmi.config import CollectConfig, GnmiTarget
    from ..telemetry.gnmi.session import DeviceSession
    from ..telemetry.gnmi.vendors import Vendor
    from .port_recordings import PortRecordings

FLUSH_S = 0.5
FULL_ROWS = 65_536  # rows that are handed on without waiting for FLUSH_S
CLOCK_S = 10.0
COUNTS_S = 5.0  # interval between two reports of counts
REPORT_S = 1.0
LINKS_S = 3600.0  # interval between two rows of each configured link; a new row seals the previous one
TELLING = ("gnmi_events", "device_clocks", "gaps")  # tables of reports: a device has at most a few rows per second
OF_LANES = ("bins", "gaps")  # tables of switch ports as interfaces


class CollectWriter:
    """Appends rows to the tables of the store, in parallel to reading the streams."""

    def __init__(self, store: StoreFolder, limit_bytes: int, ports: PortRecordings | None = None) -> None:
        self._folder = store
        self._limit = limit_bytes
        self._ports = ports
        self._writers: dict[tuple[str, str], Any] = {}
        self.written = 0
        self.dropped: Counter[str] = Counter()  # rows by device, since the start
        self._background: BackgroundWriter[tuple[str, pa.RecordBatch | pa.Table]] = BackgroundWriter(
            "mburst-store", self._store, limit_bytes
        )

    def hand(self, table: str, rows: pa.RecordBatch | pa.Table) -> Counter[str]:
        """Queue rows, and return the number of rows by device if they were dropped instead. At most the limit and one
        batch wait; rows of the tables in TELLING are never dropped."""
        from ..telemetry.gnmi.rows import devices_of

        if self._background.hand((table, rows), rows.nbytes, always=table in TELLING):
            return Counter()
        lost = devices_of(rows)
        self.dropped += lost
        return lost

    @property
    def waiting_bytes(self) -> int:
        """The bytes that are not stored yet."""
        return self._background.waiting

    @property
    def full(self) -> bool:
        """Whether rows are dropped, or soon will be."""
        return self.waiting_bytes > self._limit // 2

    @property
    def failure(self) -> BaseException | None:
        """The error that ended storing, if any."""
        return self._background.failure

    def _store(self, items: list[tuple[str, pa.RecordBatch | pa.Table]]) -> None:
        for table, rows in items:
            try:
                self._append(table, rows)
            except MburstError:
                raise
            except Exception as error:
                raise MburstError(f"{table}: rows cannot be stored: {type(error).__name__}: {error}") from error
            self.written += rows.num_rows

    def _append(self, table: str, rows: pa.RecordBatch | pa.Table) -> None:
        if table in OF_LANES:
            assert self._ports is not None
            self._ports.append(table, rows)
            return
        if table != "links":
            self._writer(table, "").append(rows)
            return
        import pyarrow.compute as pc

        for rack in rows.column("rack").unique().to_pylist():  # each rack has its own writer
            self._writer(table, rack).append(rows.filter(pc.equal(rows.column("rack"), rack)))

    def _writer(self, table: str, rack: str) -> Any:
        writer = self._writers.get((table, rack))
        if writer is None:
            writer = self._writers[table, rack] = self._folder.writer(table, rack=rack)
        return writer

    def close(self) -> None:
        """Write all queued rows and seal the tables. Raises MburstError if the store could not be written."""
        failures: list[MburstError] = []
        ports = [self._ports.close] if self._ports else []
        for close in (self._background.close, *ports, self._close_writers):
            try:
                close()
            except MburstError as error:
                failures.append(error)
        if failures:
            raise failures[0]

    def _close_writers(self) -> None:
        failure: MburstError | None = None
        for writer in self._writers.values():
            try:
                writer.close()
            except MburstError as error:
                failure = failure or error
        if failure:
            raise failure


@dataclass
class CollectProgress:
    """The progress of a collection."""

    values_per_s: float
    up: int  # targets with at least one working subscription
    targets: int
    lag_ns: int | None  # largest lag of the newest messages, by the devices' clocks
    written: int
    dropped: int
    refused: int  # messages and connections of OTLP senders


class Collector:
    """One run of a configuration. `say` gets each line for users, `progress` the state once a second. What needs the
    rights with which this process began (files that the configuration names, sockets) is opened when the object is
    created. Raises MburstError."""

    def __init__(
        self,
        config: CollectConfig,
        store: StoreFolder,
        say: Callable[[str], None],
        progress: Callable[[CollectProgress], None] | None = None,
    ) -> None:
        from ..telemetry.gnmi.rows import CollectedRows
        from ..telemetry.gnmi.session import DeviceSession
        from .otlp_collection import OtlpCollection

        self.config, self.store, self.say, self.progress = config, store, say, progress
        self.rows = CollectedRows()
        vendors = vendors_of(config)
        batch = os.urandom(4).hex()
        self.sessions: list[DeviceSession] = [
            DeviceSession(
                target, device_of(target, config, self.rows, f"gnmi-{batch}-{target.name}", vendors), vendors, say
            )
            for target in config.targets
        ]
        self.otlp = OtlpCollection(config, f"otlp-{batch}") if config.otlp else None
        self.receiver = self.otlp.receiver(lambda: self.writing.full, say) if self.otlp else None
        ports = self.otlp.recordings(store) if self.otlp else None
        self.writing = CollectWriter(store, config.buffer_bytes, ports)
        self._batch = f"gnmi-{batch}"
        self._inventory()
        self._seen = (time.monotonic(), 0)
        self._flushed = self._counted = 0.0
        self.stopped = asyncio.Event()
        self.interrupted = False  # by SIGINT

    def _inventory(self) -> None:
        """Add rows of the configured links. They are repeated so that a part of a store with queue windows also has its
        links."""
        self._stated = time.monotonic()
        for link in self.config.links:
            self.rows.add(
                "links",
                batch=self._batch,
                ts_ns=time.time_ns(),
                host=link.host,
                interface=link.interface,
                rack=link.rack,
                link_bps=link.link_bps,
                device=link.device,
                port=link.port,
                queue=link.queue,
                origin="configuration",
                present=True,
            )

    def close(self) -> None:
        """Close what is open, if the collector was not run."""
        if self.receiver:
            self.receiver.close()
        self.writing.close()

    async def run(self, duration_s: float | None = None) -> None:
        """Collect until a signal (interrupting.SIGNALS), the end of the duration, the last answer (with --once), or a
        failure of the store, which is raised as MburstError."""
        loop = asyncio.get_running_loop()

        def stop() -> None:
            loop.call_soon_threadsafe(self.stopped.set)

        with stopping(stop) as ended_by, self.store.place.watched(stop):
            try:
                await self._collect(duration_s)
            finally:
                self.interrupted = signal.SIGINT in ended_by[:1]

    async def _collect(self, duration_s: float | None) -> None:
        tasks = [asyncio.create_task(session.run(), name=session.target.name) for session in self.sessions]
        tasks.append(asyncio.create_task(self._keep(), name="mburst-keep"))
        stop = asyncio.create_task(self.stopped.wait())
        try:
            if self.receiver:
                await self.receiver.start()
            done, _ = await asyncio.wait([stop, *tasks], timeout=duration_s, return_when=asyncio.FIRST_COMPLETED)
            for task in done - {stop}:
                task.result()
        finally:
            self.rows.ending = True
            for session in self.sessions:
                session.ending = "the collection ended"
            for task in (stop, *tasks):
                task.cancel()
            await asyncio.gather(stop, *tasks, return_exceptions=True)
            if self.receiver:
                await self.receiver.stop()
            self._flush(everything=True)
            await asyncio.to_thread(self.writing.close)

    async def _keep(self) -> None:
        """Hand rows on, estimate the clocks, show progress."""
        reported = clock = time.monotonic()
        while self.writing.failure is None:
            await asyncio.sleep(0.05)
            alive.beat()
            now = time.monotonic()
            if now - self._flushed >= FLUSH_S or self.rows.waiting >= FULL_ROWS:
                self._flush()
            if now - self._stated >= LINKS_S:
                with self.rows.lock:
                    self._inventory()
            if now - clock >= CLOCK_S:
                clock = now
                with self.rows.lock:
                    for session in self.sessions:
                        session.device.estimate_clock(time.time_ns())
            if now - reported >= REPORT_S:
                reported = now
                self._report()
                if not self.otlp and all(session.done for session in self.sessions):
                    self.stopped.set()
        raise self.writing.failure

    def _flush(self, everything: bool = False) -> None:
        """Hand on the complete rows; if EVERYTHING is true, also rows that could still get values."""
        self._flushed = now = time.monotonic()
        self._flush_otlp(everything)
        with self.rows.lock:
            for session in self.sessions:
                for stream in session.streams.values():
                    stream.flush() if everything else stream.settle()
                if everything:
                    session.device.estimate_clock(time.time_ns())
            self._hand_on()
            if everything or (now - self._counted >= COUNTS_S and not self.writing.full):
                self._counted = now
                for session in self.sessions:
                    session.device.report(time.time_ns())
                self._hand_on()  # including the rows on what was just dropped

    def _flush_otlp(self, everything: bool) -> None:
        """Hand on the rows from OTLP senders."""
        if not self.otlp:
            return
        for table, rows in self.otlp.take(everything):
            if lost := self.writing.hand(table, rows):
                self.otlp.lose(lost)
                for gaps in self.otlp.gaps_of(table, rows):
                    self.writing.hand("gaps", gaps)
        if everything or time.monotonic() - self._counted >= COUNTS_S:
            for event in self.otlp.events():
                self.rows.add("gnmi_events", **event)

    def _hand_on(self) -> None:
        lost: Counter[str] = Counter()
        for table, rows in self.rows.take():
            lost += self.writing.hand(table, rows)
        unfit = self.rows.refused()
        for session in self.sessions:
            if amount := lost.get(session.device.name):
                session.device.count("", "dropped", "the store was too slow", amount)
            if amount := unfit.get(session.device.name):
                session.device.count("", "not-understood", "values out of range of their columns", amount)

    def _report(self) -> None:
        if self.progress is None:
            return
        now, values = time.monotonic(), sum(session.device.values for session in self.sessions)
        values += self.otlp.intake.values if self.otlp else 0
        (before, had), self._seen = self._seen, (now, values)
        up = [session for session in self.sessions if session.up]
        lags = [session.device.lag_ns for session in up]
        self.progress(
            CollectProgress(
                (values - had) / (now - before), len(up), len(self.sessions), max(lags, default=None),
                self.writing.written, self.writing.dropped.total(), self.otlp.refused_messages if self.otlp else 0,
            )
        )  # fmt: skip


def vendors_of(config: CollectConfig) -> tuple[Vendor, ...]:
    """Returns the tables of a configuration: its own, then those that come with mburst. Raises MburstError."""
    from ..errors import UsageError
    from ..telemetry.gnmi.vendors import built_in, load

    with privileges.raised():  # as for the configuration file that names the tables
        vendors = (*(load(path) for path in config.tables), *built_in())
    names = [vendor.name for vendor in vendors]
    for target in config.targets:
        if target.vendor and target.vendor not in names:
            raise UsageError(
                f"mburst.vendors.{target.name}: unknown table {target.vendor!r}", f"there are {', '.join(names)}"
            )
    return vendors


def device_of(target: GnmiTarget, config: CollectConfig, rows: Any, batch: str, vendors: tuple[Vendor, ...]) -> Any:
    """Returns the state of a target before its first message."""
    from ..telemetry.gnmi.decode import DeviceState
    from ..telemetry.gnmi.vendors import Tables

    speeds = {link.port: link.link_bps for link in config.links if link.device == target.name and link.link_bps}
    tables = Tables(vendors, target.vendor)
    return DeviceState(target.name, rows, batch, tables, target.rack, speeds, target.most_paths)
