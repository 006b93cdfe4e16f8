"""Values since the last call of a client, for several clients (scrapers) that call at different times."""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable
from typing import TYPE_CHECKING, Generic, TypeVar

import numpy as np
import numpy.typing as npt

from ...units import NS_PER_MINUTE

if TYPE_CHECKING:
    import pyarrow as pa

Key = TypeVar("Key", bound=Hashable)
SCRAPERS = 64  # scrapers that are distinguished; the one with the oldest call is forgotten, and restarts
MOST_NAMES = 1_000_000
MOST_VALUES = 65_536  # newest values of a key from which quantiles are computed
OVERLAPPING_NS = NS_PER_MINUTE  # longest time by which windows of one collection may arrive later than those of another


class Largest(Generic[Key]):
    """The largest value of each key since the same scraper's last call. The first call of a scraper returns the largest
    values of all time."""

    def __init__(self) -> None:
        self._ever: dict[Key, float] = {}
        self._since: dict[str, dict[Key, float]] = {}

    def add(self, key: Key, value: float) -> None:
        """Add a value, for all scrapers."""
        for seen in (self._ever, *self._since.values()):
            seen[key] = max(seen.get(key, value), value)

    def take(self, scraper: str) -> dict[Key, float]:
        """Returns the largest values of the keys with new values."""
        found = self._since.pop(scraper, None)
        self._since[scraper] = {}
        if len(self._since) > SCRAPERS:
            del self._since[next(iter(self._since))]
        return dict(self._ever) if found is None else found


class Newest(Generic[Key]):
    """The newest values of each key since the same scraper's last call, at most MOST_VALUES."""

    def __init__(self) -> None:
        self._count = 0
        self._parts: dict[Key, deque[tuple[int, npt.NDArray[np.int64]]]] = {}
        self._asked: dict[str, int] = {}

    def add(self, key: Key, values: npt.NDArray[np.int64]) -> None:
        """Add values, in the order of their arrival."""
        self._count += 1
        parts = self._parts.setdefault(key, deque())
        parts.append((self._count, values[-MOST_VALUES:]))
        while sum(len(part) for _, part in parts) - len(parts[0][1]) >= MOST_VALUES:
            parts.popleft()

    def take(self, scraper: str) -> dict[Key, npt.NDArray[np.int64]]:
        """Returns the newest values of the keys with new values."""
        since = self._asked.pop(scraper, 0)
        self._asked[scraper] = self._count
        if len(self._asked) > SCRAPERS:
            del self._asked[next(iter(self._asked))]
        fresh = {key: [part for count, part in parts if count > since] for key, parts in self._parts.items()}
        return {key: np.concatenate(parts)[-MOST_VALUES:] for key, parts in fresh.items() if parts}


class RecentNames:
    """Remembers the newest MOST_NAMES names of 64 bits."""

    def __init__(self) -> None:
        self._names = np.empty(0, np.uint64)

    def unknown(self, names: npt.NDArray[np.uint64]) -> npt.NDArray[np.bool_]:
        """Returns which of these names are new, and remembers them."""
        new = ~np.isin(names, self._names)
        self._names = np.concatenate([self._names, names[new]])[-MOST_NAMES:]
        return new


class CountedSpans:
    """The times that were already counted of each switch queue, by collection. Later counts of another collection that
    overlap them are of the same packets. Times are kept for OVERLAPPING_NS, and so are collections that ended; if a
    device sets its clock, its times restart."""

    def __init__(self) -> None:
        self._spans: dict[tuple[str, str, str], dict[str, tuple[int, int]]] = {}

    def add(self, queue: tuple[str, str, str], batch: str, first_ns: int, last_ns: int) -> None:
        """Note that windows of a queue (device, port, queue) from FIRST_NS to LAST_NS were counted for the collection
        BATCH."""
        spans, oldest_ns = self._spans.get(queue, {}), last_ns - OVERLAPPING_NS
        from_ns, until_ns = spans.get(batch, (first_ns, first_ns))
        if from_ns <= first_ns <= until_ns + OVERLAPPING_NS:
            first_ns, last_ns = max(from_ns, oldest_ns), max(until_ns, last_ns)
        newer = {name: span for name, span in spans.items() if oldest_ns <= span[1] <= last_ns + OVERLAPPING_NS}
        self._spans[queue] = {**newer, batch: (first_ns, last_ns)}

    def to_arrow(self) -> pa.Table:
        """Returns rows of (device, port, queue, batch, from_ns, until_ns)."""
        import pyarrow as pa

        texts, numbers = ("device", "port", "queue", "batch"), ("from_ns", "until_ns")
        types = pa.schema([*((name, pa.string()) for name in texts), *((name, pa.int64()) for name in numbers)])
        rows = [(*queue, batch, *span) for queue, spans in self._spans.items() for batch, span in spans.items()]
        return pa.Table.from_pylist([dict(zip(types.names, row, strict=True)) for row in rows], types)
