"""A status line for recordings from interfaces: rate, bins, bursts so far, drops, timestamps."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from ...messages import print_progress
from ...units import format_count, format_rate, format_share

if TYPE_CHECKING:
    import pyarrow as pa

    from ...analysis.bursts.follower import Follower
    from .recording import RecordProgress, RecordSettings, Row

EVERY_S = 0.5


class LiveLine:
    """Shows the state of recordings on standard error, twice a second: in full for one recording, abbreviated for
    several."""

    def __init__(self, recordings: list[RecordSettings]) -> None:
        self._interfaces = {one.targets[0]: InterfaceProgress() for one in recordings}
        self._shown = 0.0

    def show(self, progress: RecordProgress) -> None:
        self._interfaces[progress.recording.targets[0]].take(progress)
        now = time.monotonic()
        if now - self._shown < EVERY_S:
            return
        passed, self._shown = now - self._shown if self._shown else 0.0, now
        print_progress(self._text(passed))

    def _text(self, passed: float) -> str:
        if len(self._interfaces) == 1:
            [state] = self._interfaces.values()
            return state.full(passed)
        return "; ".join(f"{name} {state.brief(passed)}" for name, state in self._interfaces.items())


class InterfaceProgress:
    """The progress of the recording of one interface."""

    def __init__(self) -> None:
        self.bursts = BurstCount()
        self._batches: list[pa.RecordBatch] = []
        self._bins = 0
        self._wire_bytes = 0
        self._progress: RecordProgress | None = None

    def take(self, progress: RecordProgress) -> None:
        """Add new progress."""
        self._progress = progress
        if progress.bins is not None:
            self._batches.append(progress.bins)
            self._bins += len(progress.bins)

    def full(self, passed: float) -> str:
        """Returns the full line, PASSED seconds after the previous one; 0 for the first."""
        from .rows import stamped_by

        progress = self._progress
        if progress is None:
            return "waiting"
        rate, bursts = self._count(progress, passed)
        parts = [format_count(progress.packets, "packet"), rate, format_count(self._bins, "bin"), bursts]
        parts.append(f"{progress.facts['dropped']:,} dropped")
        if progress.lanes:
            quality = 0
            for lane in progress.lanes:
                quality |= lane["quality"]
            parts.append(f"stamps: {stamped_by(quality, live=True)}")
        return ", ".join(parts)

    def brief(self, passed: float) -> str:
        """Returns rate, bursts, and drops, if any."""
        if self._progress is None:
            return "waiting"
        dropped = self._progress.facts["dropped"]
        return ", ".join([*self._count(self._progress, passed), *[f"{dropped:,} dropped"] * bool(dropped)])

    def _count(self, progress: RecordProgress, passed: float) -> tuple[str, str]:
        """Returns the rate and the number of bursts as text."""
        wire = sum(lane["wire_bytes"] for lane in progress.lanes)
        rate = (wire - self._wire_bytes) * 8 / passed if passed else 0
        self._wire_bytes = wire
        link = next((row["link_bps"] for row in progress.recordings), None)
        if link:
            self.bursts.add(self._batches, progress.recordings)
        self._batches.clear()
        known = link or not progress.recordings
        return (
            format_rate(rate) + (f" ({format_share(rate / link)})" if link else ""),
            format_count(self.bursts.count, "burst") if known else "no link speed: bursts need --link",
        )


class BurstCount:
    """Counts the bursts of a recording as they end."""

    def __init__(self) -> None:
        self.count = 0
        self._follower: Follower | None = None

    def add(self, batches: list[pa.RecordBatch], recordings: list[Row]) -> None:
        """Read new rows of bins of the lanes in RECORDINGS."""
        if not batches or not recordings:
            return
        import pyarrow as pa

        from ...analysis.bursts.find import BurstDefinition
        from ...analysis.bursts.follower import Follower

        if self._follower is None:
            self._follower = Follower(BurstDefinition(), -(2**63), late_ns=0)  # only the number of bursts is shown
        for recording in recordings:
            self._follower.add_recording(recording)
        now_ns = time.time_ns()
        self._follower.add(pa.concat_tables(pa.Table.from_batches([batch]) for batch in batches), None, now_ns)
        self.count += len(self._follower.ended(now_ns))
