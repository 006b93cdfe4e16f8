"""The names of lanes in the live view."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from ...analysis.live.lane import LiveLane
from ...units import format_duration, format_rate


def names_of(lanes: Iterable[LiveLane]) -> dict[str, str]:
    """Returns the name of each lane by its id: "cache-1 eth0 in". If several would have one name, rack, bin width and
    link speed are appended to it, those that differ: "cache-1 eth0 in, bins of 1 ms, 1 Gb/s"."""
    alike: dict[str, list[LiveLane]] = {}
    for lane in lanes:
        alike.setdefault(" ".join(map(lane.named, ("host", "interface", "direction"))), []).append(lane)
    names: dict[str, str] = {}
    for name, several in alike.items():
        parts = [
            _differing([lane.named("rack") for lane in several], "rack {}".format),
            _differing([lane.bin_ns for lane in several], lambda ns: f"bins of {format_duration(ns)}", " ({:,} ns)"),
            _differing([lane.link_bps for lane in several], _speed, " ({:,} b/s)"),
        ]
        for at, lane in enumerate(several):
            names[lane.id] = ", ".join([name, *(texts[at] for texts in parts if texts)])
    return names


def _differing(values: Sequence[Any], text: Callable[[Any], str], exact: str = "") -> list[str]:
    """Returns a text for each value, [] if all are equal. Different values of one text have their digits, too."""
    if len({*values}) == 1:
        return []
    texts = [text(value) for value in values]
    meant = {said: {value for value, one in zip(values, texts, strict=True) if one == said} for said in texts}
    return [
        said + (exact.format(value) if len(meant[said]) > 1 else "") for said, value in zip(texts, values, strict=True)
    ]


def _speed(link_bps: int | None) -> str:
    return "link speed not known" if link_bps is None else format_rate(link_bps)
