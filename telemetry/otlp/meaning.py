"""The meaning of a metric: which attributes name the device, port and queue, and which column its points fill."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from ..tables import PORT_VALUES, QUEUE_VALUES

COLUMNS = {"queues": QUEUE_VALUES, "ports": PORT_VALUES}
CARRIED = {"queues": ("transmit_bytes",), "ports": ("in_bytes", "out_bytes")}  # bytes, which are limited by the link
KEYS = {"queues": ("port", "queue"), "ports": ("port",)}


@dataclass(frozen=True)
class MetricMeaning:
    """A metric as a column. `kind`: gauge (the value at its time, or the maximum since the last one), counter (a
    running total), count (what was counted since the last one)."""

    sender: str  # the table's name
    table: str
    column: str
    kind: str
    semantics: str
    scale: int
    bits: int  # of a counter that continues from 0 after its largest value; 0: a decrease means a reset
    sources: tuple[tuple[str, re.Pattern[str]], ...]  # attribute → pattern of its value
    device: tuple[str, ...]  # attributes that name the device; the first existing one counts

    def places(self, attributes: Mapping[str, str]) -> tuple[str, ...] | None:
        """The port, and for a queue its name; None if the attributes do not have them."""
        found: dict[str, str] = {}
        for name, expression in self.sources:
            match = expression.fullmatch(attributes.get(name, ""))
            if match is None:
                return None
            found.update(match.groupdict())
        return tuple(found[key] for key in KEYS[self.table])


Meanings = Mapping[str, tuple[MetricMeaning, ...]]  # by the name of the metric; the first that matches counts
