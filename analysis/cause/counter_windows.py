"""Windows of the counters of a switch port: each time is in one window, and the queues are added up. Times are ns."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ..model.stats import Floats
from .conservation import SwitchWindows

SAME = 1 / 8  # of a window: closer edges of two queues belong to one reading of the device


def apart(windows: SwitchWindows) -> SwitchWindows:
    """Returns the windows that overlap no earlier one: several collections count a port in windows with different
    starts."""
    order = np.argsort(windows.start, kind="stable")
    start, end = windows.start[order], windows.end[order]
    kept = np.ones(len(order), dtype=bool)
    if (start[1:] < end[:-1]).any():
        until = -np.inf
        for k, (begins, ends) in enumerate(zip(start.tolist(), end.tolist(), strict=True)):
            kept[k] = begins >= until
            until = ends if kept[k] else until
    return _chosen(windows, order[kept])


def added_up(name: str, queues: Sequence[SwitchWindows]) -> SwitchWindows:
    """Returns the sums of all QUEUES of a port, in the windows of the queue that has most. There is at least one queue,
    and the windows of each are `apart`. A device stamps its queues one by one, so edges may differ by SAME of a window;
    edge_ns is the largest difference. Windows are left out if another queue counted something in differing windows that
    overlap them: its share of them is unknown."""
    base, *others = sorted(queues, key=lambda queue: -len(queue.start))
    bytes_, was_reset, whole = base.bytes.copy(), base.was_reset.copy(), np.ones(len(base.start), dtype=bool)
    edge_ns = base.edge_ns
    for queue in others:
        at = _nearest(base, queue)
        width = SAME * (base.end - base.start)[at]
        off = np.maximum(np.abs(queue.start - base.start[at]), np.abs(queue.end - base.end[at]))
        fits = off <= width
        np.add.at(bytes_, at[fits], queue.bytes[fits])
        np.logical_or.at(was_reset, at[fits], queue.was_reset[fits])
        edge_ns = max(edge_ns, float(off[fits].max(initial=0.0)))
        whole &= ~_touched(base, queue.start[alien := ~fits & (queue.bytes > 0)], queue.end[alien])
    return _chosen(base._replace(name=name, bytes=bytes_, was_reset=was_reset, edge_ns=edge_ns), np.flatnonzero(whole))


def _nearest(base: SwitchWindows, queue: SwitchWindows) -> NDArray[np.int64]:
    """Returns, for each window of a queue, the window of BASE that contains its middle, or the next one."""
    middle = (queue.start + queue.end) / 2
    return np.minimum(np.searchsorted(base.end, middle, side="right"), len(base.end) - 1)


def _touched(base: SwitchWindows, start: Floats, end: Floats) -> NDArray[np.bool_]:
    """Returns which windows of BASE overlap any of the intervals. Neither overlap among themselves."""
    first = np.searchsorted(base.end, start, side="right")
    beyond = np.maximum(np.searchsorted(base.start, end, side="left"), first)
    steps = np.zeros(len(base.start) + 1, dtype=np.int64)
    np.add.at(steps, first, 1)
    np.add.at(steps, beyond, -1)
    return np.asarray(np.cumsum(steps)[:-1] > 0)


def _chosen(windows: SwitchWindows, at: NDArray[np.int64]) -> SwitchWindows:
    return windows._replace(
        start=windows.start[at], end=windows.end[at], bytes=windows.bytes[at], was_reset=windows.was_reset[at]
    )
