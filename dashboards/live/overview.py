"""All interfaces of the live view at a glance: the fullest bin of each second."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...analysis.live.lane import LiveLane
from ...analysis.live.store import LiveStore
from ...units import NS_PER_S
from .lane_names import names_of


def overview(live: LiveStore, rack: str, seconds: int) -> dict[str, Any]:
    """Returns the newest seconds of every lane of a rack (or of all racks, if it is empty) with a known link speed."""
    with live.lock:
        lanes = [lane for lane in live.lanes.values() if lane.link_bps and (not rack or lane.named("rack") == rack)]
        names = names_of(live.lanes.values())
        edge = max((lane.edge_ns for lane in lanes), default=0) // NS_PER_S
        rows = [
            {"id": lane.id, "name": names[lane.id], "percent": fullest_bins(lane, edge - seconds, edge + 1)}
            for lane in sorted(lanes, key=lambda lane: lane.id)
        ]
    return {"firstSecond": edge - seconds, "lanes": rows}


def fullest_bins(lane: LiveLane, first: int, end: int) -> list[float | None]:
    """Returns the fullest bin of each of the seconds [first, end), in percent of the link. None if nothing was
    recorded, or if memory no longer has all of it."""
    row = np.full(end - first, np.nan)
    known_ns = max(first, -(-lane.complete_from_ns // NS_PER_S)) * NS_PER_S
    for start_ns, end_ns in lane.covered(known_ns, end * NS_PER_S):
        row[start_ns // NS_PER_S - first : -(-end_ns // NS_PER_S) - first] = 0
    cells = lane.envelope(known_ns, end * NS_PER_S, NS_PER_S if NS_PER_S % lane.bin_ns == 0 else lane.bin_ns)
    np.fmax.at(row, cells.cells * cells.width_ns // NS_PER_S - first, cells.max_bps() * 100 / (lane.link_bps or 1))
    return [None if np.isnan(percent) else round(percent, 2) for percent in row.tolist()]
