"""Messages → columns of numbers: of each point the number of its series, when it was taken, and its value.

What a point is of is decided once, when its series is first seen: a resource, a metric and the bytes of the attributes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from google.protobuf.message import DecodeError
from numpy.typing import NDArray

from ..tables import PLAUSIBLE_NS
from . import limits, messages
from .meanings import Meanings, MetricMeaning

Ints = NDArray[np.int64]
USUAL_DEVICE = "host.name"  # of metrics without a meaning
NO_VALUE = 1  # flag of a point that says that there is none
GAUGE, SUM, DELTA_SUM = "gauge", "sum", "delta sum"
LARGEST = float(2**63)


class InvalidMessage(ValueError):
    """The bytes are no OTLP metrics."""


@dataclass(frozen=True)
class MetricSeries:
    """What points of one kind, of one metric with one set of attributes, are. Without a meaning its number is -1."""

    number: int
    device: str
    port: str = ""
    queue: str = ""
    meaning: MetricMeaning | None = None
    is_total: bool = False  # a running total; else the value as it is, or what was counted since the last


@dataclass
class Points:
    """Points of known series, in columns of the same length."""

    series: NDArray[np.int32]
    ts_ns: Ints
    start_ns: Ints  # when the counter began, as the sender says; 0: it does not
    value: Ints
    receive_ns: Ints  # our clock

    @classmethod
    def joined(cls, parts: Sequence[Points]) -> Points:
        """All PARTS, one behind the other."""
        return cls(*(np.concatenate([getattr(part, name) for part in parts]) for name in cls.__annotations__))

    def chosen(self, at: Any) -> Points:
        """Those at these places."""
        return Points(*(getattr(self, name)[at] for name in self.__annotations__))

    def __len__(self) -> int:
        return len(self.series)


@dataclass
class ReadMessage:
    """What a message held. `refused`: points that are not taken, by the reason."""

    points: Points
    refused: Counter[str] = field(default_factory=Counter)
    unmapped: Counter[tuple[str, str]] = field(default_factory=Counter)  # (device, metric) without a meaning
    number: int = 0  # of points in the message


class SeriesIndex:
    """The series that are known, of all senders. Not for several threads at once. `seen` is called with (device,
    metric, attributes, kind, series) of each new one."""

    def __init__(self, meanings: Meanings, seen: Callable[..., None] | None = None) -> None:
        self.all: list[MetricSeries] = []  # those with a meaning, by their numbers
        self.devices: dict[str, None] = {}
        self._meanings, self._seen = meanings, seen
        self._known: dict[tuple[tuple[str, bytes], str, str], dict[Any, MetricSeries]] = {}
        self._count = 0

    def read(self, message: bytes, sender: str, receive_ns: int) -> ReadMessage:
        """The points of a message that SENDER, an address, sent. Raises InvalidMessage."""
        try:
            request = messages.Request.FromString(message)
        except DecodeError:
            raise InvalidMessage("not an ExportMetricsServiceRequest") from None
        taken = _Taken(self, len(message) // limits.PART_BYTES)
        taken.have(len(request.resource_metrics))
        for resource_metrics in request.resource_metrics:
            place = (sender, resource_metrics.resource)
            taken.have(len(resource_metrics.scope_metrics))
            for scope_metrics in resource_metrics.scope_metrics:
                taken.have(len(scope_metrics.metrics))
                for metric in scope_metrics.metrics:
                    taken.metric(place, metric)
        return taken.reading(receive_ns)

    def of_metric(self, place: tuple[str, bytes], name: str, kind: str) -> dict[Any, MetricSeries]:
        """The known series of a metric by their attributes."""
        known = self._known.get((place, name, kind))
        if known is None:
            known = {}
            if self._count < limits.SERIES:  # else nothing is added to it
                self._known[place, name, kind] = known
        return known

    def add(self, place: tuple[str, bytes], name: str, kind: str, attributes: Sequence[bytes]) -> MetricSeries | str:
        """A series that is seen for the first time, or why there can be none."""
        if self._count >= limits.SERIES:
            return f"more than {limits.SERIES:,} series"
        if (
            sum(map(len, attributes), limits.PART_BYTES * len(attributes) + len(place[1]) + len(name))
            > limits.SERIES_BYTES
        ):
            return f"attributes of more than {limits.SERIES_BYTES:,} bytes"
        try:
            own = _texts(messages.KeyValue.FromString(text) for text in attributes)
            whole = _texts(messages.Resource.FromString(place[1]).attributes) | own
        except DecodeError:
            return "invalid attributes"
        self._count += 1
        made = self._made(place[0], name, kind, whole)
        if made.meaning is not None:
            self.all.append(made)
        if self._seen:
            self._seen(made.device, name, own, kind, made)
        return made

    def _made(self, sender: str, name: str, kind: str, attributes: dict[str, str]) -> MetricSeries:
        device = sender
        for meaning in self._meanings.get(name, ()):
            places = meaning.places(attributes)
            device = next((attributes[key] for key in meaning.device if attributes.get(key)), sender)
            if places is not None and self._is_known(device):
                port, queue = (*places, "")[:2]
                is_total = meaning.kind == "counter" and kind != DELTA_SUM
                return MetricSeries(len(self.all), device, port, queue, meaning, is_total)
        return MetricSeries(-1, attributes.get(USUAL_DEVICE) or device)

    def _is_known(self, device: str) -> bool:
        """Whether a device is one of those that may be."""
        if device not in self.devices and len(self.devices) < limits.DEVICES:
            self.devices[device] = None
        return device in self.devices


class _Taken:
    """The points of a message, while it is read."""

    def __init__(self, index: SeriesIndex, most: int) -> None:
        self._index, self._left = index, most
        self._series: list[int] = []
        self._ts_ns: list[int] = []
        self._start_ns: list[int] = []
        self._value: list[int] = []
        self._refused: Counter[str] = Counter()
        self._unmapped: Counter[tuple[str, str]] = Counter()
        self._number = 0

    def have(self, parts: int) -> None:
        """The message has so many more parts. Raises InvalidMessage where those are too many."""
        self._left -= parts
        if self._left < 0:
            raise InvalidMessage(f"more than a part for each {limits.PART_BYTES} bytes")

    def metric(self, place: tuple[str, bytes], metric: Any) -> None:
        """Take the points of a metric."""
        if points := metric.gauge.data_points:
            return self._take(points, place, metric.name, GAUGE)
        if points := metric.sum.data_points:
            delta = metric.sum.aggregation_temporality == messages.DELTA
            return self._take(points, place, metric.name, DELTA_SUM if delta else SUM)
        for other in ("histogram", "exponential_histogram", "summary"):
            if count := len(getattr(metric, other).data_points):
                self._number += count
                self._refused[f"no meaning for a {other.replace('_', ' ')}"] += count
        return None

    def _take(self, points: Any, place: tuple[str, bytes], name: str, kind: str) -> None:
        self.have(len(points))
        self._number += len(points)
        known = self._index.of_metric(place, name, kind)
        found, unmapped = None, 0
        series, ts_ns, start_ns, value = self._series, self._ts_ns, self._start_ns, self._value
        for point in points:
            attributes = point.attributes
            key = attributes[0] if len(attributes) == 1 else tuple(attributes)
            found = known.get(key)
            if found is None:
                made = self._index.add(place, name, kind, attributes)
                if isinstance(made, str):
                    self._refused[made] += 1
                    continue
                found = known[key] = made
            if found.number < 0:
                unmapped += 1
                continue
            amount = point.as_int or _whole(point)
            if amount is None:
                self._refused["not a number"] += 1
                continue
            series.append(found.number)
            ts_ns.append(point.time_unix_nano)
            start_ns.append(point.start_time_unix_nano)
            value.append(amount)
        if unmapped and found is not None:  # a device sends a metric
            self._unmapped[found.device, name if len(self._unmapped) < limits.NAMES else "others"] += unmapped

    def reading(self, receive_ns: int) -> ReadMessage:
        """All that was taken, without points of a time that is none."""
        ts_ns, start_ns = (np.array(column, np.uint64) for column in (self._ts_ns, self._start_ns))
        plausible = (ts_ns >= PLAUSIBLE_NS[0]) & (ts_ns < PLAUSIBLE_NS[1])
        start_ns[(start_ns < PLAUSIBLE_NS[0]) | (start_ns > ts_ns)] = 0
        points = Points(
            np.array(self._series, np.int32), ts_ns.astype(np.int64), start_ns.astype(np.int64),
            np.array(self._value, np.int64), np.full(len(ts_ns), receive_ns, np.int64),
        )  # fmt: skip
        if not plausible.all():
            self._refused["invalid timestamp"] += int((~plausible).sum())
            points = points.chosen(plausible)
        return ReadMessage(points, self._refused, self._unmapped, self._number)


def _whole(point: Any) -> int | None:
    """The value of a point that has no whole number other than 0; None where it has none."""
    if point.flags & NO_VALUE:
        return None
    amount = point.as_double
    return round(amount) if -LARGEST < amount < LARGEST else None


def _texts(attributes: Any) -> dict[str, str]:
    """The attributes that are one value, as text."""
    found = {}
    for attribute in attributes:
        kind = attribute.value.WhichOneof("value")
        if kind is not None:
            value = getattr(attribute.value, kind)
            found[attribute.key] = value.hex() if isinstance(value, bytes) else str(value)
    return found
