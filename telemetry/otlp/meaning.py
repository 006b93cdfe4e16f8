"""What a metric means: which attributes name the device, port and queue, and which column its points are."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from ..tables import PORT_VALUES, QUEUE_VALUES

COLUMNS = {"queues": QUEUE_VALUES, "ports": PORT_VALUES}
CARRIED = {"queues": ("transmit_bytes",), "ports": ("in_bytes", "out_bytes")}  # bytes, which a link bounds
KEYS = {"queues": ("port", "queue"), "ports": ("port",)}


@dataclass(frozen=True)
class MetricMeaning:
    """A metric as a column. `kind`: gauge (the value at its time, or the most since the last), counter (a running
    total), count (what was counted since the last)."""

    sender: str  # the table's name
    table: str
    column: str
    kind: str
    semantics: str
    scale: int
    bits: int  # of a counter that goes on from 0 after its largest value; 0: it was reset where it went back
    sources: tuple[tuple[str, re.Pattern[str]], ...]  # attribute → what it says
    device: tuple[str, ...]  # attributes that name the device, the first that is there counts

    def places(self, attributes: Mapping[str, str]) -> tuple[str, ...] | None:
        """The port, and of a queue its name; None where the attributes do not say."""
        found: dict[str, str] = {}
        for name, expression in self.sources:
            match = expression.fullmatch(attributes.get(name, ""))
            if match is None:
                return None
            found.update(match.groupdict())
        return tuple(found[key] for key in KEYS[self.table])


Meanings = Mapping[str, tuple[MetricMeaning, ...]]  # by the metric's name, the first that fits counts
