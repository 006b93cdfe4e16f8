"""Which series a point belongs to.

A series is a column of a queue or port: it has one identity, regardless of how many senders, metrics and orders of
attributes feed it. The series of a point is decided once, when its feed is first seen: a sender, a resource, a metric
and the bytes of the attributes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from google.protobuf.message import DecodeError

from ...units import NS_PER_MINUTE
from . import limits, messages
from .meaning import Meanings, MetricMeaning

USUAL_DEVICE = "host.name"  # of metrics without a meaning
DELTA_SUM = "delta sum"
TOO_LONG = f"attributes of more than {limits.SERIES_BYTES:,} bytes"
LARGEST = 2**63 - 1  # of a column
FORGET_NS = NS_PER_MINUTE  # from one check for unused resources to the next


@dataclass(frozen=True)
class MetricSeries:
    """A column of a queue or port. Its number is -1 if it has no meaning."""

    number: int
    device: str
    port: str = ""
    queue: str = ""
    meaning: MetricMeaning | None = None
    is_total: bool = False  # a running total; otherwise a value as it is, or a count since the last one
    cell: int = -1  # the same for the running total of a column and for its counts, which are the same data


@dataclass(frozen=True)
class SeriesFeed:
    """One metric with one set of attributes, from one sender. Its number is -1 if it has no meaning."""

    number: int
    series: MetricSeries
    meaning: MetricMeaning | None
    sender: str
    metric: str
    largest: int = 0  # largest value that a row can hold, in the unit of the column


@dataclass
class SenderResource:
    """A resource of a sender, in any order of its attributes, with its feeds. `fault` is the reason why it can have
    none."""

    sender: str
    attributes: dict[str, str] = field(default_factory=dict)
    size: int = 0
    fault: str = ""
    feeds: dict[tuple[str, str], dict[Any, SeriesFeed]] = field(default_factory=dict)  # by (metric, kind), attributes
    count: int = 0
    used_ns: int = 0


class SeriesIndex:
    """The known series of all senders. Not for use by several threads at once. `seen` is called with (device, metric,
    attributes, kind, series) for each new feed."""

    def __init__(self, meanings: Meanings, seen: Callable[..., None] | None = None) -> None:
        self.all: list[MetricSeries] = []  # those with a meaning, by number
        self.feeds: list[SeriesFeed] = []  # also by number
        self.devices: dict[str, None] = {}
        self._meanings, self._seen = meanings, seen
        self._series: dict[tuple[Any, ...], MetricSeries] = {}
        self._cells: dict[tuple[Any, ...], int] = {}
        self._as_sent: dict[tuple[str, bytes], SenderResource] = {}
        self._resources: dict[tuple[Any, ...], SenderResource] = {}  # by sender and content
        self._count = 0  # number of known feeds
        self._forgot_ns = 0

    def resource(self, sender: str, sent: bytes, now_ns: int) -> SenderResource:
        """The resource with the content SENT."""
        found = self._as_sent.get((sender, sent))
        if found is None:
            found = self._resource(sender, sent, now_ns)
            if not found.fault and len(self._as_sent) < limits.RESOURCES:
                self._as_sent[sender, sent] = found
        found.used_ns = now_ns
        return found

    def _resource(self, sender: str, sent: bytes, now_ns: int) -> SenderResource:
        if len(sent) > limits.SERIES_BYTES:
            return SenderResource(sender, fault=TOO_LONG)
        try:
            attributes = _texts(messages.Resource.FromString(sent).attributes)
        except DecodeError:
            return SenderResource(sender, fault="invalid attributes")
        key = (sender, *sorted(attributes.items()))
        if key not in self._resources:
            if len(self._resources) >= limits.RESOURCES:
                self._forget(now_ns)
            if len(self._resources) >= limits.RESOURCES:
                return SenderResource(sender, fault=f"more than {limits.RESOURCES:,} resources")
            self._resources[key] = SenderResource(sender, attributes, len(sent))
        return self._resources[key]

    def feed(self, resource: SenderResource, metric: str, kind: str, attributes: Sequence[bytes]) -> SeriesFeed | str:
        """Returns the feed for points with these attributes, in any order, or the reason why there can be none. It is
        remembered by the order that came first, and by the sorted one."""
        key = tuple(sorted(attributes))
        found = resource.feeds.get((metric, kind), {}).get(key)
        if found is not None:
            return found
        made = self._new(resource, metric, kind, key)
        if isinstance(made, SeriesFeed):
            known = resource.feeds.setdefault((metric, kind), {})
            known[key] = known[attributes[0] if len(attributes) == 1 else tuple(attributes)] = made
        return made

    def _new(self, resource: SenderResource, metric: str, kind: str, key: tuple[bytes, ...]) -> SeriesFeed | str:
        if self._count >= limits.SERIES:
            self._forget(resource.used_ns)
        if self._count >= limits.SERIES or self._is_spent():
            return f"more than {limits.SERIES:,} series"
        if sum(map(len, key), limits.PART_BYTES * len(key) + resource.size + len(metric)) > limits.SERIES_BYTES:
            return TOO_LONG
        try:
            own = _texts(messages.KeyValue.FromString(text) for text in key)
        except DecodeError:
            return "invalid attributes"
        made = self._made(resource.sender, metric, kind, resource.attributes | own)
        if made.number >= 0:
            self.feeds.append(made)
        resource.count += 1
        self._count += 1
        if self._seen:
            self._seen(made.series.device, metric, own, kind, made.series)
        return made

    def _is_spent(self) -> bool:
        """Whether so many series or feeds have existed that their numbers are used up."""
        return len(self.all) >= limits.SERIES or len(self.feeds) >= 4 * limits.SERIES

    def _forget(self, now_ns: int) -> None:
        """Forget resources that have sent nothing for a long time."""
        if now_ns - self._forgot_ns < FORGET_NS:
            return
        self._forgot_ns, until_ns = now_ns, now_ns - limits.UNUSED_NS
        self._as_sent = {key: one for key, one in self._as_sent.items() if one.used_ns >= until_ns}
        self._resources = {key: one for key, one in self._resources.items() if one.used_ns >= until_ns}
        self._count = sum(one.count for one in self._resources.values())

    def _made(self, sender: str, metric: str, kind: str, attributes: dict[str, str]) -> SeriesFeed:
        device = sender
        for meaning in self._meanings.get(metric, ()):
            places = meaning.places(attributes)
            device = next((attributes[key] for key in meaning.device if attributes.get(key)), sender)
            if places is not None and self._is_known(device):
                port, queue = (*places, "")[:2]
                series = self._of(meaning, device, port, queue, meaning.kind == "counter" and kind != DELTA_SUM)
                return SeriesFeed(len(self.feeds), series, meaning, sender, metric, LARGEST // meaning.scale)
        unknown = MetricSeries(-1, attributes.get(USUAL_DEVICE) or device)
        return SeriesFeed(-1, unknown, None, sender, metric)

    def _of(self, meaning: MetricMeaning, device: str, port: str, queue: str, is_total: bool) -> MetricSeries:
        """Returns the series of a column of a queue or port."""
        cell = (meaning.table, meaning.column, meaning.semantics, device, port, queue)
        if (cell, is_total) not in self._series:
            number = self._cells.setdefault(cell, len(self._cells))
            made = MetricSeries(len(self.all), device, port, queue, meaning, is_total, number)
            self.all.append(made)
            self._series[cell, is_total] = made
        return self._series[cell, is_total]

    def _is_known(self, device: str) -> bool:
        """Whether a device is among those that are allowed."""
        if device not in self.devices and len(self.devices) < limits.DEVICES:
            self.devices[device] = None
        return device in self.devices


def _texts(attributes: Any) -> dict[str, str]:
    """The attributes with a single value, as text."""
    found = {}
    for attribute in attributes:
        kind = attribute.value.WhichOneof("value")
        if kind is not None:
            value = getattr(attribute.value, kind)
            found[attribute.key] = value.hex() if isinstance(value, bytes) else str(value)
    return found
