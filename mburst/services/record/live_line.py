"""One line that says how a recording from an interface goes: rate, bins, bursts so far, drops, stamps."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

from ...units import format_count, format_rate, format_share

if TYPE_CHECKING:
    import pyarrow as pa

    from ...analysis.bursts.follower import Follower
    from .recording import RecordProgress, RecordSettings, Row

EVERY_S = 0.5


class LiveLine:
    """Shows the state of one recording on standard error, twice a second."""

    def __init__(self, recording: RecordSettings) -> None:
        self.recording = recording
        self.bursts = BurstCount()
        self.batches: list[pa.RecordBatch] = []
        self.bins = 0
        self.shown = 0.0
        self.wire_bytes = 0

    def show(self, progress: RecordProgress) -> None:
        if progress.bins is not None:
            self.batches.append(progress.bins)
            self.bins += len(progress.bins)
        now = time.monotonic()
        if now - self.shown < EVERY_S:
            return
        print(f"\r\033[K{self._text(progress, now)}", end="", file=sys.stderr, flush=True)
        self.shown = now

    def _text(self, progress: RecordProgress, now: float) -> str:
        from .rows import stamped_by

        wire = sum(lane["wire_bytes"] for lane in progress.lanes)
        rate = (wire - self.wire_bytes) * 8 / (now - self.shown) if self.shown else 0
        self.wire_bytes = wire
        link = next((row["link_bps"] for row in progress.runs), None)
        quality = 0
        for lane in progress.lanes:
            quality |= lane["quality"]
        parts = [f"{progress.packets:,} packets", format_rate(rate)]
        if link:
            parts[-1] += f" ({format_share(rate / link)})"
            self.bursts.add(self.batches, progress.runs)
        self.batches.clear()
        parts.append(f"{self.bins:,} bins")
        known = link or not progress.runs
        parts.append(format_count(self.bursts.count, "burst") if known else "no link speed: bursts need --link")
        parts.append(f"{progress.facts['dropped']:,} dropped")
        if progress.lanes:
            parts.append(f"stamps: {stamped_by(quality, live=True)}")
        return ", ".join(parts)


class BurstCount:
    """Counts the bursts of a recording as they end."""

    def __init__(self) -> None:
        self.count = 0
        self._follower: Follower | None = None

    def add(self, batches: list[pa.RecordBatch], runs: list[Row]) -> None:
        """Look at new rows of bins, of the lanes that RUNS has."""
        if not batches or not runs:
            return
        import pyarrow as pa

        from ...analysis.bursts.find import BurstDefinition
        from ...analysis.bursts.follower import Follower

        if self._follower is None:
            self._follower = Follower(BurstDefinition(), -(2**63), late_ns=0)  # only their number is shown
        for run in runs:
            self._follower.add_recording(run)
        now_ns = time.time_ns()
        self._follower.add(pa.concat_tables(pa.Table.from_batches([batch]) for batch in batches), None, now_ns)
        self.count += len(self._follower.ended(now_ns))
