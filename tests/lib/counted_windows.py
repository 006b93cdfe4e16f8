"""Which windows of a switch's queues have the counts, if several collections or widths have the same packets."""

from __future__ import annotations

import math
from collections import defaultdict
from typing import Any

COUNTERS = ("transmit_bytes", "dropped_packets", "ecn_marked_packets")
Window = dict[str, Any]


def overlap(one: Window, other: Window) -> bool:
    return bool(one["window_start_ns"] < other["ts_ns"] and one["ts_ns"] > other["window_start_ns"])


def width(window: Window) -> int:
    return int(window["ts_ns"] - window["window_start_ns"])


def rough(ns: float) -> int:
    return math.floor((math.log2(ns) + 1) / 2)


def has(window: Window) -> frozenset[str]:
    return frozenset(name for name in COUNTERS if window.get(name) is not None)


def counting(given: list[Window]) -> dict[tuple[Any, ...], dict[str, int | None]]:
    """Returns the counts of each counter, by queue and window, slowly; None where other windows have them. Each window
    has queue, batch and quality, and all are of one port."""
    collections: dict[tuple[str, str], list[Window]] = defaultdict(list)
    found: dict[tuple[Any, ...], dict[str, int | None]] = {}
    for window in given:
        if window["quality"] == 0:
            found.setdefault(named(window), dict.fromkeys(COUNTERS))
            if has(window):
                collections[window["queue"], window["batch"]].append(window)

    def place(some: list[Window]) -> tuple[bool, int]:
        covered = sum(map(width, some))
        whole = max(window["ts_ns"] for window in some) - min(window["window_start_ns"] for window in some)
        return (covered < 0.9 * whole, rough(covered / len(some)))

    for key, some in collections.items():
        former = [
            window
            for other in collections
            if other[0] == key[0] and (place(collections[other]), other[1]) < (place(some), key[1])
            for window in collections[other]
        ]
        for window in some:
            alike: dict[int, list[Window]] = defaultdict(list)
            for one in some:
                if has(one) == has(window):
                    alike[rough(width(one))].append(one)
            own = place(alike[rough(width(window))])[0], rough(width(window))
            beside = [one for rank, of in alike.items() if (place(of)[0], rank) < own for one in of]
            left = has(window).difference(*(has(one) for one in [*former, *beside] if overlap(one, window)))
            at = found[named(window)]
            at.update({name: max(window[name], at[name] or 0) for name in left})
    return found


def named(window: Window) -> tuple[str, int, int]:
    return window["queue"], window["window_start_ns"], window["ts_ns"]
