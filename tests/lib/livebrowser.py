"""The messages that a browser of the live view receives, and the state that follows from them: the page's bookkeeping
without a page."""

from __future__ import annotations

import json
from itertools import accumulate
from typing import Any

import numpy as np

from mburst.analysis.model.envelope import merge_intervals
from mburst.dashboards.live.view import LiveView, ViewRequest


def unpacked(message: bytes) -> dict[str, Any]:
    """Returns a message with its arrays as lists."""
    length = int.from_bytes(message[:4], "little")
    block = message[4 + length :]

    def listed(entry: Any) -> Any:
        if isinstance(entry, list):
            return [listed(each) for each in entry]
        if not isinstance(entry, dict):
            return entry
        if "at" not in entry or "type" not in entry:
            return {name: listed(each) for name, each in entry.items()}
        values = np.frombuffer(block, f"<{entry['type']}", entry["n"], entry["at"]).tolist()
        return [entry["base"] + int(value) for value in accumulate(values)] if "base" in entry else values

    found: dict[str, Any] = listed(json.loads(message[4 : 4 + length]))
    return found


def pairs(spans: dict[str, list[int]]) -> list[tuple[int, int]]:
    """Returns the spans of a message, one by one."""
    return list(zip(spans["start"], spans["end"], strict=True))


class Follower:
    """Follows the one lane of a store. Times count from `origin_ns`."""

    def __init__(self, view: LiveView, span_ns: int, origin_ns: int) -> None:
        self.view = view
        [lane] = view.live.lanes.values()
        self.wish = ViewRequest(lane.id, span_ns, 1400, origin_ns)
        self.coverage: list[tuple[int, int]] = []
        self.cells: dict[int, int] = {}  # of the heatmap, by their start: wire bytes of the fullest bin
        message, self.position = view.start(self.wish)
        self._take(unpacked(message))

    def look(self) -> None:
        """Has the view read its store, and receives the messages."""
        self.view.live.poll()
        self.view.bursts.look()
        self.view.tick += 1
        self.hear()

    def hear(self) -> None:
        """Receives the view's news since the last call."""
        message, self.position = self.view.change(self.wish, self.position)
        self._take(unpacked(message))

    def _take(self, received: dict[str, Any]) -> None:
        self.received = received
        known = [(a, min(b, received["start"])) for a, b in self.coverage if a < received["start"]]
        self.coverage = merge_intervals([*known, *pairs(received["coverage"])])
        heat = received["heat"]
        self.cells = {at: largest for at, largest in self.cells.items() if at < heat["from"]}
        self.cells |= {at: 0 for start, end in pairs(heat["coverage"]) for at in range(start, end, heat["width"])}
        self.cells |= {
            heat["start"] + cell * heat["width"]: largest
            for cell, largest in zip(heat["cells"], heat["largest"], strict=True)
        }
