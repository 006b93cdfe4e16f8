"""Collects from many switches into a store: sessions in one event loop, a thread that reads for each of their
subscriptions, and one that writes.

Reading never waits for the disk. Rows wait in a bounded queue between the two; what does not fit is dropped, counted
by device, and reported in `gnmi_events`, while the streams go on being read.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import queue
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..errors import MburstError

if TYPE_CHECKING:
    import pyarrow as pa

    from ..sql import Store
    from ..telemetry.gnmi.config import Config, Target
    from ..telemetry.gnmi.session import Session
    from ..telemetry.gnmi.vendors import Vendor

FLUSH_S = 0.5
FULL_ROWS = 65_536  # rows that are handed on without waiting for FLUSH_S
CLOCK_S = 10.0
COUNTS_S = 5.0  # from one telling of what was counted to the next
REPORT_S = 1.0
TELLING = ("gnmi_events", "device_clocks")  # tables that say how it goes: a device has some rows a second at most


class Writing:
    """The thread that appends to the store, and the bounded queue before it."""

    def __init__(self, store: Store, limit_bytes: int) -> None:
        self._store = store
        self._limit = limit_bytes
        self._queue: queue.SimpleQueue[tuple[str, Any, int] | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._waiting_bytes = 0
        self._writers: dict[tuple[str, str], Any] = {}
        self.failure: MburstError | None = None
        self.written = 0
        self.dropped: Counter[str] = Counter()  # rows by device, since the start
        self._thread = threading.Thread(target=self._run, name="mburst-store", daemon=True)
        self._thread.start()

    def hand(self, table: str, rows: pa.RecordBatch | pa.Table) -> Counter[str]:
        """Queue rows; those that were dropped instead, by device. A batch that finds the queue empty is never dropped,
        so that at most the limit and one batch wait; nor are the tables of TELLING."""
        from ..telemetry.gnmi.rows import devices_of

        size = rows.nbytes
        with self._lock:
            waiting = self._waiting_bytes
            fits = not waiting or waiting + size <= self._limit or table in TELLING
            if fits:
                self._waiting_bytes += size
        if fits:
            self._queue.put((table, rows, size))
            return Counter()
        lost = devices_of(rows)
        self.dropped += lost
        return lost

    @property
    def full(self) -> bool:
        """Whether rows are dropped, or about to be."""
        return self._waiting_bytes > self._limit // 2

    def _run(self) -> None:
        while (task := self._queue.get()) is not None:
            table, rows, size = task
            try:
                if self.failure is None:
                    self._append(table, rows)
                    self.written += rows.num_rows
            except MburstError as error:
                self.failure = error
            except Exception as error:  # the queue must go on being emptied
                self.failure = MburstError(f"{table}: rows cannot be stored: {type(error).__name__}: {error}")
            finally:
                with self._lock:
                    self._waiting_bytes -= size

    def _append(self, table: str, rows: pa.RecordBatch | pa.Table) -> None:
        if table != "links":
            self._writer(table, "").append(rows)
            return
        import pyarrow.compute as pc

        for rack in rows.column("rack").unique().to_pylist():  # a writer is of one rack
            self._writer(table, rack).append(rows.filter(pc.equal(rows.column("rack"), rack)))

    def _writer(self, table: str, rack: str) -> Any:
        writer = self._writers.get((table, rack))
        if writer is None:
            writer = self._writers[table, rack] = self._store.writer(table, rack=rack)
        return writer

    def close(self) -> None:
        """Write all that waits and seal. Raises MburstError when the store could not be written."""
        self._queue.put(None)
        self._thread.join()
        for writer in self._writers.values():
            try:
                writer.close()
            except MburstError as error:
                self.failure = self.failure or error
        if self.failure:
            raise self.failure


@dataclass
class Progress:
    """How a collection goes."""

    values_per_s: float
    up: int  # targets of which at least one subscription is received
    targets: int
    lag_ns: int | None  # largest of the newest messages, as the devices' clocks have it
    written: int
    dropped: int


class Collector:
    """One run over a configuration. `say` gets each line for people, `progress` the state once a second."""

    def __init__(
        self,
        config: Config,
        store: Store,
        say: Callable[[str], None],
        progress: Callable[[Progress], None] | None = None,
    ) -> None:
        from ..telemetry.gnmi.rows import Rows
        from ..telemetry.gnmi.session import Session

        self.config, self.say, self.progress = config, say, progress
        self.rows = Rows()
        vendors = vendors_of(config)
        batch = os.urandom(4).hex()
        self.sessions: list[Session] = [
            Session(target, device_of(target, config, self.rows, f"gnmi-{batch}-{target.name}", vendors), vendors, say)
            for target in config.targets
        ]
        self.writing = Writing(store, config.buffer_bytes)
        self._inventory(f"gnmi-{batch}")
        self._seen = (time.monotonic(), 0)
        self._flushed = self._counted = 0.0
        self.stopped = asyncio.Event()
        self.interrupted = False  # by SIGINT

    def _inventory(self, batch: str) -> None:
        for link in self.config.links:
            self.rows.add(
                "links",
                batch=batch,
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

    async def run(self, duration_s: float | None = None) -> None:
        """Collect until SIGINT, SIGTERM, the duration, the last answer where all is asked for once, or a failure of the
        store, which is raised as MburstError."""
        loop = asyncio.get_running_loop()
        with contextlib.suppress(NotImplementedError, ValueError, RuntimeError):  # not in the main thread
            for number in (signal.SIGINT, signal.SIGTERM):
                loop.add_signal_handler(number, self._stop, number)
        tasks = [asyncio.create_task(session.run(), name=session.target.name) for session in self.sessions]
        tasks.append(asyncio.create_task(self._keep(), name="mburst-keep"))
        stop = asyncio.create_task(self.stopped.wait())
        try:
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
            self._flush(everything=True)
            await asyncio.to_thread(self.writing.close)

    def _stop(self, number: int) -> None:
        self.interrupted = number == signal.SIGINT
        self.stopped.set()

    async def _keep(self) -> None:
        """Hand rows on, look after the clocks, show progress."""
        reported = clock = time.monotonic()
        while self.writing.failure is None:
            await asyncio.sleep(0.05)
            now = time.monotonic()
            if now - self._flushed >= FLUSH_S or self.rows.waiting >= FULL_ROWS:
                self._flush()
            if now - clock >= CLOCK_S:
                clock = now
                with self.rows.lock:
                    for session in self.sessions:
                        session.device.estimate_clock(time.time_ns())
            if now - reported >= REPORT_S:
                reported = now
                self._report()
                if all(session.done for session in self.sessions):
                    self.stopped.set()
        raise self.writing.failure

    def _flush(self, everything: bool = False) -> None:
        """Hand on the rows that are whole; with `everything`, also those that might have got more values."""
        self._flushed = now = time.monotonic()
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
                self._hand_on()  # with what was dropped just now

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
        (before, had), self._seen = self._seen, (now, values)
        up = [session for session in self.sessions if session.up]
        lags = [session.device.lag_ns for session in up]
        self.progress(Progress((values - had) / (now - before), len(up), len(self.sessions), max(lags, default=None),
                               self.writing.written, self.writing.dropped.total()))  # fmt: skip


def vendors_of(config: Config) -> tuple[Vendor, ...]:
    """The tables of a configuration: its own before those that come with mburst. Raises MburstError."""
    from ..errors import UsageError
    from ..telemetry.gnmi.vendors import built_in, load

    vendors = (*(load(path) for path in config.tables), *built_in())
    names = [vendor.name for vendor in vendors]
    for target in config.targets:
        if target.vendor and target.vendor not in names:
            raise UsageError(
                f"mburst.vendors.{target.name}: unknown table {target.vendor!r}", f"there are {', '.join(names)}"
            )
    return vendors


def device_of(target: Target, config: Config, rows: Any, batch: str, vendors: tuple[Vendor, ...]) -> Any:
    """What is known of a target before it is heard."""
    from ..telemetry.gnmi.decode import Device
    from ..telemetry.gnmi.vendors import Tables

    speeds = {link.port: link.link_bps for link in config.links if link.device == target.name and link.link_bps}
    tables = Tables(vendors, target.vendor)
    return Device(target.name, rows, batch, tables, target.rack, speeds, target.most_paths)
