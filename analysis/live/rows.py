"""A lane as one row of cells: the fullest bin of each, and the last whole second."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...units import NS_PER_S
from .lane import LiveLane
from .snapshot import History, finished, read_cells, read_losing

LATEST_NS = 2**62  # no later than this
STALE_NS = 10 * NS_PER_S  # data of so long ago, or of three bins, are not the newest: recorders push in steps


@dataclass(frozen=True)
class LaneRow:
    """Cells of `width_ns`; the last one contains `end_ns` or ends there. `fullest` is the bits per second of each
    cell's fullest bin, None if it was not recorded; `losing` says in which cells packets were lost; `second` is the
    bits per second of the last complete second, None if it was not recorded, or ended STALE_NS before `end_ns`."""

    lane: LiveLane
    end_ns: int
    width_ns: int
    fullest: list[float | None]
    losing: list[bool]
    second: float | None


def newest_ns(lanes: list[LiveLane]) -> int:
    """Returns the time up to which the lanes are known; 0 without any."""
    return max((lane.edge_ns for lane in lanes), default=0)


def read_row(history: History, lane: LiveLane, end_ns: int, width_ns: int, columns: int) -> LaneRow:
    """Returns COLUMNS cells of a lane up to END_NS. Their width is WIDTH_NS or the next multiple of its bin below, at
    least a bin. Raises MburstError."""
    width = max(1, width_ns // lane.bin_ns) * lane.bin_ns
    beyond = -(-end_ns // width)
    first = beyond - columns
    cells = read_cells(history, lane, first * width, beyond * width, width)
    with history.live.lock:
        covered = lane.covered(first * width, min(beyond * width, end_ns))
    fullest, lost = np.full(columns, np.nan), np.zeros(columns, bool)
    for start, end in covered:
        fullest[start // width - first : -(-end // width) - first] = 0
    np.fmax.at(fullest, cells.cells - first, cells.max_bps())
    for start, end in read_losing(history, lane, first * width, beyond * width):
        lost[max(start // width - first, 0) : -(-end // width) - first] = True
    return LaneRow(
        lane,
        end_ns,
        width,
        [None if np.isnan(bps) else bps for bps in fullest.tolist()],
        lost.tolist(),
        _second(history, lane, end_ns),
    )


def _second(history: History, lane: LiveLane, end_ns: int) -> float | None:
    """Returns the bits per second of the last whole second of the clock that is complete by END_NS and known; None if
    it was not recorded, or is stale."""
    with history.live.lock:
        known = min(end_ns, lane.edge_ns)
    if end_ns - known > max(STALE_NS, 3 * lane.bin_ns):
        return None
    number = known // NS_PER_S - 1
    start, end = number * NS_PER_S, (number + 1) * NS_PER_S
    with history.live.lock:
        if not lane.covered(start, end):
            return None
    dividing = NS_PER_S if NS_PER_S % lane.bin_ns == 0 else lane.bin_ns
    seconds = finished(read_cells(history, lane, start, end, dividing), known)
    return next(
        (bps for cell, bps in zip(seconds.cells.tolist(), seconds.mean_bps().tolist(), strict=True) if cell == number),
        0.0,
    )
