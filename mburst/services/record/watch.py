"""The tasks of a recording from an interface in addition to counting. It ends when its duration is over, writes the
tables clock and gaps, refuses bins that are too fine for the timestamps, and reports when the interface is renamed or
its speed or MTU changes."""

from __future__ import annotations

import signal
import socket
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from ...analysis.model.coarse import FINE_NS, too_coarse
from ...errors import MburstError
from ...process import privileges
from ...quality import COARSE_STAMPS
from ...units import NS_PER_S, format_duration, format_rate
from .gaps import GapWriter
from .recording import Notes

if TYPE_CHECKING:
    import pyarrow as pa

    from ...capture import Capture, Device
    from ...sql import StoreFolder
    from ...telemetry.probe.clock import Reading
    from .recording import RecordSettings, Row

LEAST_JUMP_NS = 1_000_000  # below it, NTP may have slewed the clock: 500 ppm
CHECKED_BINS = 100


class InterfaceMonitor:
    """Monitors one recording from an interface."""

    def __init__(
        self, store: StoreFolder, recording: RecordSettings, writer_id: str, on_trouble: Callable[[MburstError], None]
    ) -> None:
        from ...capture import device
        from ...telemetry.probe.clock import Clocks

        self.recording = recording
        self.interface = recording.interface or recording.targets[0]
        found = device(recording.targets[0])
        with privileges.raised():
            self.clocks = Clocks(found["phc_index"] if found else -1)
        self.link = _LinkWatch(self.interface, found, recording, on_trouble) if found else None
        self.writer = store.writer("clock", recording.host, recording.rack, writer_id, on_trouble)
        self.losses = GapWriter(store, recording.host, recording.rack, writer_id)
        self.last: Reading | None = None
        self.jumps = Notes("system time was set more often: the table `clock` has its readings")
        self.begun = time.monotonic_ns()
        self.bins = self.coarse = 0

    def look(self, capture: Capture, rows: list[Row]) -> None:
        """Check the capture and its interface. Called after every read, at least ten times a second, with the latest
        ROWS of the recordings."""
        self.losses.look(capture.losses(), rows)
        raw_ns = time.clock_gettime_ns(time.CLOCK_MONOTONIC_RAW)
        if self.last is None or raw_ns - self.last.monotonic_raw_ns >= NS_PER_S:
            self._read_clocks()
            if self.link:
                self.link.look()
        duration = self.recording.live.duration_ns
        if duration is not None and time.monotonic_ns() - self.begun >= duration:
            capture.stop()

    def _read_clocks(self) -> None:
        import pyarrow as pa

        from ...telemetry.probe.clock import jump_ns

        now = self.clocks.read()
        names = {"host": self.recording.host, "rack": self.recording.rack, "interface": self.interface}
        self.writer.append(pa.Table.from_pylist([{**names, **vars(now)}]))
        if self.last and abs(jump := jump_ns(self.last, now)) > max(self.recording.bin_ns, LEAST_JUMP_NS):
            way = "forward" if jump > 0 else "back"
            self.jumps.add(f"system time was set {way} by {format_duration(abs(jump))}")
        self.last = now

    def check_stamps(self, bins: pa.RecordBatch) -> None:
        """Refuse bins that are too fine for the timestamps, before anything is stored. Raises MburstError."""
        if self.recording.bin_ns >= FINE_NS or self.recording.live.force or self.bins >= CHECKED_BINS:
            return
        qualities = bins.column("quality").to_pylist()
        self.bins += len(qualities)
        self.coarse += sum(bool(quality & COARSE_STAMPS) for quality in qualities)
        if self.coarse * 2 > self.bins:
            raise too_coarse(self.interface, self.recording.bin_ns, "record them anyway")

    def notes(self, packets: int, ended_by: list[signal.Signals]) -> list[str]:
        """Returns what happened, one sentence each."""
        silence = [] if packets else [f"no packet in {format_duration(time.monotonic_ns() - self.begun)}"]
        return [*self.jumps, *silence, *(f"ended by {number.name}" for number in ended_by[:1])]

    def close(self) -> None:
        self.clocks.close()
        try:
            self.losses.close()
        finally:
            self.writer.close()


class _LinkWatch:
    """Reports when an interface, recorded as CALLED, is renamed, and when its link speed or MTU differs from that in
    BEGUN. A speed or MTU that RECORDING gives is not checked."""

    def __init__(
        self, called: str, begun: Device, recording: RecordSettings, say: Callable[[MburstError], None]
    ) -> None:
        self._called = called
        self._index = begun["index"]
        self._name = self._current_name() or begun["name"]  # the recording may use one of its alternative names
        self._link_bps = begun["link_bps"]
        self._mtu = self._largest_mtu = begun["mtu"]
        self._has_speed = bool(recording.link_bps)
        self._has_mtu = recording.mtu >= 0
        self._say = say

    def look(self) -> None:
        """Check the interface. Called once a second. An interface that is gone is handled elsewhere; one without a
        carrier has no speed."""
        from ...capture import device

        name = self._current_name()
        if name is None:
            return
        if name != self._name:
            self._name = name
            self._say(MburstError(f"{self._called}: the interface is called {name} now; it is recorded as before"))
        found = device(name)
        if found is None:
            return
        if not self._has_speed and found["link_bps"] not in (0, self._link_bps):
            self._report_speed(found["link_bps"])
        if not self._has_mtu and found["mtu"] != self._mtu:
            self._report_mtu(found["mtu"])

    def _current_name(self) -> str | None:
        try:
            return socket.if_indextoname(self._index)
        except OSError:
            return None

    def _report_speed(self, link_bps: int) -> None:
        before = format_rate(self._link_bps) if self._link_bps else "not known"
        self._link_bps = link_bps
        self._say(
            MburstError(
                f"{self._called}: the speed of the link changed, from {before} to {format_rate(self._link_bps)}: "
                "shares of line rate are of the speed at the start, until it is recorded again"
            )
        )

    def _report_mtu(self, mtu: int) -> None:
        before, self._mtu, self._largest_mtu = self._mtu, mtu, max(self._largest_mtu, mtu)
        self._say(
            MburstError(
                f"{self._called}: the MTU changed, from {before:,} to {mtu:,}: IP packets of up to "
                f"{self._largest_mtu:,} bytes are not taken as merged frames"
            )
        )
