"""Messages → columns of numbers: for each point the number of its series, its time and its value."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from google.protobuf.message import DecodeError

from ...units import PLAUSIBLE_NS
from . import limits, messages
from .points import Points
from .series import DELTA_SUM, SenderResource, SeriesFeed, SeriesIndex

NO_VALUE = 1  # flag of a point without a value
GAUGE, SUM = "gauge", "sum"
EXACT = float(2**53)  # a double is exact for whole numbers up to this


class InvalidMessage(ValueError):
    """The bytes are not OTLP metrics."""


@dataclass
class ReadMessage:
    """The content of a message. `refused` counts points that are not taken, by reason."""

    points: Points
    refused: Counter[str] = field(default_factory=Counter)
    unmapped: Counter[tuple[str, str]] = field(default_factory=Counter)  # (device, metric) without a meaning
    number: int = 0  # of points in the message


def read_message(index: SeriesIndex, message: bytes, sender: str, receive_ns: int) -> ReadMessage:
    """Returns the points of a message from SENDER, an address. Raises InvalidMessage."""
    try:
        request = messages.Request.FromString(message)
    except DecodeError:
        raise InvalidMessage("not an ExportMetricsServiceRequest") from None
    taken = _Taken(index, len(message) // limits.PART_BYTES)
    taken.have(len(request.resource_metrics))
    for resource_metrics in request.resource_metrics:
        resource = index.resource(sender, resource_metrics.resource, receive_ns)
        taken.have(len(resource_metrics.scope_metrics))
        for scope_metrics in resource_metrics.scope_metrics:
            taken.have(len(scope_metrics.metrics))
            for metric in scope_metrics.metrics:
                taken.metric(resource, metric)
    return taken.reading(receive_ns)


class _Taken:
    """The points of a message, while it is read."""

    def __init__(self, index: SeriesIndex, most: int) -> None:
        self._index, self._left = index, most
        self._series: list[int] = []
        self._feed: list[int] = []
        self._ts_ns: list[int] = []
        self._start_ns: list[int] = []
        self._value: list[int] = []
        self._refused: Counter[str] = Counter()
        self._unmapped: Counter[tuple[str, str]] = Counter()
        self._number = 0

    def have(self, parts: int) -> None:
        """Note that the message has PARTS more parts. Raises InvalidMessage if it has too many."""
        self._left -= parts
        if self._left < 0:
            raise InvalidMessage(f"more than a part for each {limits.PART_BYTES} bytes")

    def metric(self, resource: SenderResource, metric: Any) -> None:
        """Take the points of a metric."""
        if points := metric.gauge.data_points:
            return self._take(points, resource, metric.name, GAUGE)
        if points := metric.sum.data_points:
            delta = metric.sum.aggregation_temporality == messages.DELTA
            return self._take(points, resource, metric.name, DELTA_SUM if delta else SUM)
        for other in ("histogram", "exponential_histogram", "summary"):
            if count := len(getattr(metric, other).data_points):
                self._number += count
                self._refused[f"no meaning for a {other.replace('_', ' ')}"] += count
        return None

    def _take(self, points: Any, resource: SenderResource, name: str, kind: str) -> None:
        self.have(len(points))
        self._number += len(points)
        if resource.fault:
            self._refused[resource.fault] += len(points)
            return
        known = resource.feeds.get((name, kind), {})
        series, feeds, ts_ns = self._series, self._feed, self._ts_ns
        start_ns, value = self._start_ns, self._value
        for point in points:
            attributes = point.attributes
            feed = known.get(attributes[0] if len(attributes) == 1 else tuple(attributes))
            if feed is None:
                found = self._index.feed(resource, name, kind, attributes)
                if isinstance(found, str):
                    self._refused[found] += 1
                    continue
                feed, known = found, resource.feeds[name, kind]
            if feed.number < 0:
                self._unmapped[feed.series.device, name if len(self._unmapped) < limits.NAMES else "others"] += 1
                continue
            amount = point.as_int
            if not 0 < amount <= feed.largest or point.flags:
                amount, fault = _value(point, feed)
                if fault:
                    self._refused[fault] += 1
                    continue
            series.append(feed.series.number)
            feeds.append(feed.number)
            ts_ns.append(point.time_unix_nano)
            start_ns.append(point.start_time_unix_nano)
            value.append(amount)

    def reading(self, receive_ns: int) -> ReadMessage:
        """All that was taken, without points of an impossible time."""
        ts_ns, start_ns = (np.array(column, np.uint64) for column in (self._ts_ns, self._start_ns))
        plausible = (ts_ns >= PLAUSIBLE_NS[0]) & (ts_ns < PLAUSIBLE_NS[1])
        ahead = plausible & (ts_ns > receive_ns + limits.AHEAD_NS)
        start_ns[(start_ns < PLAUSIBLE_NS[0]) | (start_ns >= ts_ns)] = 0  # a point that begins at its time: not known
        points = Points(
            np.array(self._series, np.int32), np.array(self._feed, np.int32), ts_ns.astype(np.int64),
            start_ns.astype(np.int64), np.array(self._value, np.int64), np.full(len(ts_ns), receive_ns, np.int64),
        )  # fmt: skip
        for at, reason in (
            (~plausible, "invalid timestamp"),
            (ahead, "more than a minute ahead of the collector's clock"),
        ):
            if at.any():
                self._refused[reason] += int(at.sum())
        fit = plausible & ~ahead
        return ReadMessage(points if fit.all() else points.chosen(fit), self._refused, self._unmapped, self._number)


def _value(point: Any, feed: SeriesFeed) -> tuple[int, str]:
    """The value of a point as a whole number, or the reason why it has none that a row can hold."""
    if point.flags & NO_VALUE:
        return 0, "no recorded value"
    if not point.HasField("as_int") and not point.HasField("as_double"):
        return 0, "no value"
    amount = point.as_int if point.HasField("as_int") else point.as_double
    if amount != amount:
        return 0, "not a number"
    if amount < 0:
        return 0, "a negative value"
    if feed.series.is_total and isinstance(amount, float) and amount >= EXACT:
        return 0, "a running total of 2^53 or more as a double, which is not exact"
    if amount > feed.largest:
        return 0, "a value out of range of its column"
    return round(amount), ""
