"""The messages to each browser of the live view: the newest time of a lane, and then the changes."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace
from typing import Any

from ...analysis.live.bursts import LiveBursts
from ...analysis.live.lane import NEVER, LiveLane
from ...analysis.live.look import LiveLook
from ...analysis.live.snapshot import BURSTS, HeatCells, History, LaneSnapshot, read_heat, read_moment, width_for
from ...analysis.live.store import LiveStore, Measures
from ...errors import MburstError
from ...names import short
from ...process.workers import Workers
from ...quality import STAMP_WORDS, Quality
from ...units import NS_PER_S, format_duration
from ..common.packing import Pack
from ..common.words import above_line_rate
from . import payload as live_payload
from .lane_names import names_of
from .wishes import ViewRequest

PUSH_S = 0.1  # between looks at the store; each makes a message if something is new
IDLE_S = 1.0  # after which browsers get a message even if nothing is new
HEAT_NS, HEAT_CELL_NS = 300 * NS_PER_S, 10_000_000
STAMPS = {**STAMP_WORDS, Quality.UNSYNCED: "clock not synchronized"}


Position = tuple[tuple[int, int, int], tuple[tuple[tuple[str, ...], str], ...]]  # counts of changes; measures
Message = tuple[bytes, Position]


class LiveView:
    """Follows a store for any number of browsers, and makes their messages, in any thread."""

    def __init__(self, live: LiveStore, bursts: LiveBursts) -> None:
        self.live = live
        self.bursts = bursts
        self.history = History(live, bursts.definition)
        self.wakers: set[asyncio.Event] = set()  # of browsers; each clears its own
        self.look = LiveLook(live, bursts)
        self.tick = 0
        self._looker = Workers("mburst-look", 1, 1)

    def close(self) -> None:
        """Stop all queries."""
        self._looker.close(self.history.interrupt)

    async def follow(self) -> None:
        """Follow the store until cancelled. Browsers are woken together, so that they share one message."""
        due = pushed = time.monotonic()
        while True:
            changed = await self._looker.run(self.look)
            if changed or time.monotonic() - pushed >= IDLE_S:
                pushed = time.monotonic()
                self.tick += 1
                for waker in self.wakers:
                    waker.set()
            due = max(due + PUSH_S, time.monotonic())  # an even pace: a slow look is not followed by a full pause
            await asyncio.sleep(due - time.monotonic())

    def lane(self, name: str) -> LiveLane:
        """Returns the lane of an id. Raises MburstError."""
        with self.live.lock:
            found = next((lane for lane in self.live.lanes.values() if lane.id == name), None)
        if found is None:
            raise MburstError(f"no lane {short(name, 200)} in this store")
        return found

    def lanes(self) -> list[dict[str, Any]]:
        """Returns the lanes for a reader to choose from, by rack, host, interface and direction."""
        with self.live.lock:
            names = names_of(self.live.lanes.values())
            rows = [
                {
                    "id": lane.id,
                    **{name: lane.named(name) for name in ("rack", "host", "interface", "direction")},
                    "bin": lane.bin_ns,
                    "link": lane.link_bps,
                    "name": names[lane.id],
                    "recording": lane.recording,
                    "edge": str(lane.edge_ns),
                }
                for lane in self.live.lanes.values()
            ]
        return sorted(
            rows,
            key=lambda row: (
                row["rack"],
                row["host"],
                row["interface"],
                row["direction"],
                row["bin"],
                row["link"] or 0,
            ),
        )

    def _position(self, lane: LiveLane, wish: ViewRequest) -> Position:
        """Returns how far a browser knows a lane, and the measures of the paths that it shows."""
        counts = lane.changes.count, self.live.probes.changes.count, self.live.queues.changes.count
        return counts, tuple(sorted(self.live.measures(lane.edge_ns - wish.span_ns, 2**62).items()))

    def start(self, wish: ViewRequest) -> Message:
        """Returns the newest time for a browser, and the position to continue from. Raises MburstError."""
        lane = self.lane(wish.lane)
        with self.live.lock:
            position, edge = self._position(lane, wish), lane.edge_ns
        return self._message("start", lane, wish, position, edge - wish.span_ns, edge, edge - HEAT_NS), position

    def change(self, wish: ViewRequest, position: Position) -> Message:
        """Returns the changes after POSITION; everything if these are no longer known, or if the measure of a path has
        changed. Raises MburstError."""
        lane = self.lane(wish.lane)
        with self.live.lock:
            now, edge = self._position(lane, wish), lane.edge_ns
            lows = [
                changes.since(count)
                for changes, count in zip(
                    (lane.changes, self.live.probes.changes, self.live.queues.changes), position[0], strict=True
                )
            ]
        known = [low for low in lows if low is not None]
        if len(known) < len(lows) or not _agree(dict(position[1]), dict(now[1])):
            return self.start(wish)
        if min(known) == NEVER:
            return self._nothing_new(lane, wish, edge), now
        low, heat_low = max(min(edge, *known), edge - wish.span_ns), max(min(edge, known[0]), edge - HEAT_NS)
        return self._message("change", lane, wish, now, low, edge, heat_low), now

    def _nothing_new(self, lane: LiveLane, wish: ViewRequest, edge: int) -> bytes:
        """Returns the state of a lane without other changes: a sign of life of the server."""
        width = self._heat_cell(lane)
        cells, heat = (
            lane.envelope(0, 0, lane.bin_ns),
            HeatCells(-(-edge // width) * width, lane.envelope(0, 0, width), []),
        )
        return self._joined(
            "change", lane, wish, LaneSnapshot(edge, edge, [], cells, cells, [], [], [], []), heat, edge
        )

    def _heat_cell(self, lane: LiveLane) -> int:
        """Returns the width of the heatmap's cells: a multiple of the bin."""
        return max(HEAT_CELL_NS // lane.bin_ns, 1) * lane.bin_ns

    def _message(
        self, kind: str, lane: LiveLane, wish: ViewRequest, position: Position, low: int, edge: int, heat_low: int
    ) -> bytes:
        width = width_for(lane.bin_ns, wish.span_ns, wish.steps)
        moment = read_moment(self.history, lane, low // width * width, max(edge, low + 1), width, dict(position[1]))
        with self.live.lock:
            bursts = lane.bursts_between(heat_low, 2**62)[-BURSTS:] or moment.bursts
        heat = read_heat(self.history, lane, heat_low, edge + 1, self._heat_cell(lane))
        return self._joined(kind, lane, wish, replace(moment, bursts=bursts), heat, edge)

    def _joined(
        self, kind: str, lane: LiveLane, wish: ViewRequest, moment: LaneSnapshot, heat: HeatCells, edge: int
    ) -> bytes:
        pack = Pack()
        head = {
            "kind": kind,
            **live_payload.moment_head(lane, moment, wish.origin_ns, pack),
            "edge": edge - wish.origin_ns,
            "heat": live_payload.heat_entry(heat, wish.origin_ns, pack),
            "status": self._status(lane, edge),
        }
        return live_payload.joined(head, pack)

    def moment(self, name: str, start_ns: int, end_ns: int, buckets: int, origin_ns: int) -> bytes:
        """Returns any time of a lane, as fine as BUCKETS cells allow. Raises MburstError."""
        lane, pack = self.lane(name), Pack()
        moment = read_moment(self.history, lane, start_ns, end_ns, width_for(lane.bin_ns, end_ns - start_ns, buckets))
        return live_payload.joined({"kind": "moment", **live_payload.moment_head(lane, moment, origin_ns, pack)}, pack)

    def _status(self, lane: LiveLane, edge: int) -> dict[str, Any]:
        """Returns what has to be visible whatever is shown: losses, the source of timestamps, whether the recording
        continues."""
        with self.live.lock:
            losing, behind, loss = lane.losing(edge - HEAT_NS, edge), lane.behind_ns, self.live.loss_of(lane)
            recordings = list(lane.recordings.values())
            newest = max(recordings, key=lambda recording: recording["written_ns"])
        stamps = [name for bit, name in STAMPS.items() if lane.stamps & bit]
        return {
            "recording": lane.recording,
            "dropped": loss.dropped,
            "droppedIsWhole": not loss.is_least,
            "scope": loss.scope,
            "isPort": lane.is_port,
            "above": above_line_rate(lane.is_port),
            "late": sum(recording["late"] for recording in recordings),
            "losing": sum(b - a for a, b in losing),
            "stamps": stamps,
            "clock": newest["clock"],
            "notes": newest["notes"].splitlines(),
            "trouble": [*([clock_words(lane, behind)] if behind else []), *self.look.lines],
        }


def clock_words(lane: LiveLane, behind_ns: int) -> str:
    """States that the view stands still, since the clock of the lane's recorder was set back."""
    return (
        f"the clock of {lane.named('host')} was set back by {format_duration(behind_ns)}: what is recorded now lies "
        "before the newest time that this view shows; choose an earlier time to see it"
    )


def _agree(before: Measures, now: Measures) -> bool:
    """Returns whether the measures of all paths that were shown before are unchanged."""
    return all(now.get(path, measure) == measure for path, measure in before.items())
