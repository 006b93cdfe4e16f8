"""The names of lanes in the live view."""

from __future__ import annotations

from collections.abc import Iterable

from ...analysis.live.lane import LiveLane
from ...units import format_duration, format_rate


def names_of(lanes: Iterable[LiveLane]) -> dict[str, str]:
    """Returns the name of each lane by its id: "cache-1 eth0 in". If several would have one name, rack, bin width and
    link speed are appended to it, those that differ: "cache-1 eth0 in, bins of 1 ms, 1 Gb/s"."""
    alike: dict[str, dict[str, tuple[str, ...]]] = {}
    for lane in lanes:
        alike.setdefault(" ".join(map(lane.named, ("host", "interface", "direction"))), {})[lane.id] = _parts(lane)
    return {
        lane: ", ".join([name, *_differing(parts, several.values())])
        for name, several in alike.items()
        for lane, parts in several.items()
    }


def _parts(lane: LiveLane) -> tuple[str, ...]:
    speed = format_rate(lane.link_bps) if lane.link_bps else "link speed not known"
    return f"rack {lane.named('rack')}", f"bins of {format_duration(lane.bin_ns)}", speed


def _differing(parts: tuple[str, ...], several: Iterable[tuple[str, ...]]) -> list[str]:
    """Returns those of PARTS that not all of SEVERAL have."""
    return [part for part, values in zip(parts, zip(*several, strict=True), strict=True) if {part} != {*values}]
