"""One line that says how a recording from an interface goes: rate, bins, bursts so far, drops, stamps."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Any

from .units import format_count, format_rate, format_share

if TYPE_CHECKING:
    import pyarrow as pa

    from .recording import Progress, Recording, Row

EVERY_S = 0.5
MOST_ROWS = 2_000_000  # of bins that are kept for a burst that does not end


class LiveLine:
    """Shows the state of one recording on standard error, twice a second."""

    def __init__(self, recording: Recording) -> None:
        self.recording = recording
        self.bursts = BurstCount()
        self.batches: list[pa.RecordBatch] = []
        self.bins = 0
        self.shown = 0.0
        self.wire_bytes = 0

    def show(self, progress: Progress) -> None:
        if progress.bins is not None:
            self.batches.append(progress.bins)
            self.bins += len(progress.bins)
        now = time.monotonic()
        if now - self.shown < EVERY_S:
            return
        print(f"\r\033[K{self._text(progress, now)}", end="", file=sys.stderr, flush=True)
        self.shown = now

    def _text(self, progress: Progress, now: float) -> str:
        from .recording_rows import stamped_by

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
        parts.append(format_count(self.bursts.count, "burst") if known else "no link speed: --link counts bursts")
        parts.append(f"{progress.facts['dropped']:,} dropped")
        if progress.lanes:
            parts.append(f"stamps: {stamped_by(quality, live=True)}")
        return ", ".join(parts)


class BurstCount:
    """Counts bursts as they end, by the one definition that there is: sql/queries/bursts.sql over the newest bins."""

    def __init__(self) -> None:
        self.count = 0
        self._con: Any = None
        self._bins: pa.Table | None = None

    def add(self, batches: list[pa.RecordBatch], runs: list[Row]) -> None:
        """Look at new rows of bins, of the lanes that RUNS has."""
        import pyarrow as pa

        tables = [pa.Table.from_batches([batch]) for batch in batches]
        if self._bins is not None:
            tables.insert(0, self._bins)
        if not tables or not runs:
            return
        from .analysis.bursts import BurstDefinition, find_bursts

        self._bins = pa.concat_tables(tables).unify_dictionaries().combine_chunks()
        con = self._connection(runs)
        bursts = find_bursts(con)
        newest = self._bins.column("ts_ns").to_numpy().max()
        bin_ns = runs[0]["bin_ns"]
        settled = int(newest) - BurstDefinition().joined_ns(bin_ns) - bin_ns  # no later bin is joined
        ended = [burst for burst in bursts if burst["end_ns"] < settled]
        self.count += len(ended)
        open_since = min((burst["start_ns"] for burst in bursts if burst["end_ns"] >= settled), default=settled)
        self._keep_from(open_since)

    def _keep_from(self, ts_ns: int) -> None:
        import pyarrow.compute as pc

        if self._bins is not None:
            kept = self._bins.filter(pc.greater_equal(self._bins.column("ts_ns"), ts_ns))
            self._bins = kept.slice(max(0, len(kept) - MOST_ROWS))

    def _connection(self, runs: list[Row]) -> Any:
        """A database in memory that has only these bins."""
        import pyarrow as pa

        from .sql import in_memory

        if self._con is None:
            self._con = in_memory()
            self._con.execute("CREATE VIEW sources AS FROM defined.sources")
        self._con.register("bins", self._bins)
        self._con.register("recordings", pa.Table.from_pylist(runs))
        return self._con
