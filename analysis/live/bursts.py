"""The bursts of a live store's lanes, as they end."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from ..bursts.find import BurstDefinition
from ..bursts.follower import Follower
from .names import LiveNames
from .store import REMEMBERED_NS, LiveStore

if TYPE_CHECKING:
    import pyarrow as pa

MOST_BURSTS = 2000  # of a lane in memory


class LiveBursts:
    """Finds the bursts of a live store's lanes: first those in the store, then each one as it ends. Call `look`
    regularly, with the store's lock held."""

    def __init__(self, live: LiveStore, definition: BurstDefinition) -> None:
        self.live = live
        self.definition = definition
        self._follower = Follower(definition, live.complete_from_ns, longest_ns=REMEMBERED_NS)
        with live.lock, live.connect(live.complete_from_ns, 2**63 - 1) as con:
            self._add_recordings(live.lane_of)
            self._found = self._follower.begin(con, time.time_ns())
            self._names = LiveNames(live.store)
            live.takers.append(self._take)

    def _add_recordings(self, names: Iterable[str]) -> None:
        for name in names:
            if lane := self.live.lane_of.get(name):
                self._follower.add_recording(lane.recordings[name])

    def _take(self, rows: dict[str, pa.Table]) -> None:
        """Take new rows of the store."""
        if "recordings" in rows:
            self._add_recordings(rows["recordings"]["recording_id"].to_pylist())
        if "clock" in rows:
            self._follower.hear(rows["clock"])
        if "bins" in rows or "sources" in rows:
            self._follower.add(rows.get("bins"), rows.get("sources"), time.time_ns())

    def look(self) -> bool:
        """Add the ended bursts to their lanes. Returns whether there were any. Raises MburstError if the definition
        does not fit some recordings, after adding the bursts of the others."""
        self._follower.names = self._names.rows()
        found, self._found = [*self._found, *self._follower.ended(time.time_ns())], []
        of_lane: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
        for burst in found:
            of_lane.setdefault(self.live.lane_of[burst["recording_id"]].key, []).append(burst)
        for key, ended in of_lane.items():
            lane = self.live.lanes[key]
            lane.bursts = sorted([*lane.bursts, *ended], key=lambda burst: burst["start_ns"])[-MOST_BURSTS:]
            lane.changes.add(min(burst["start_ns"] for burst in ended))
        if self._follower.unfit:
            raise self._follower.unfit
        return bool(found)
