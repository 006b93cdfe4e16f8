"""The requests of browsers to the live view, checked before any work is done for them."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

LATEST_NS = 2**62  # times of a moment, and their origin, are from 0 up to this
MOST_BUCKETS = 20_000
LEAST_SPAN_NS, MOST_SPAN_NS = 1_000_000, 300 * 10**9
LONGEST_NAME = 4096  # characters of a lane's id
_WHOLE = re.compile(r"-?[0-9]{1,19}")


@dataclass(frozen=True)
class ViewRequest:
    """The lane that a browser follows, its number of drawn steps, and the origin of its times."""

    lane: str
    span_ns: int
    steps: int
    origin_ns: int


class ViewRequests:
    """The newest view request of a browser, and `waker`, which is set if there is something to send."""

    def __init__(self) -> None:
        self.waker = asyncio.Event()
        self._newest: ViewRequest | None = None
        self._there = asyncio.Event()

    def put(self, wish: ViewRequest) -> None:
        """Store a view request in place of the previous one."""
        self._newest = wish
        self._there.set()
        self.waker.set()

    @property
    def none(self) -> bool:
        """Whether all view requests have been taken."""
        return self._newest is None

    async def take(self) -> ViewRequest:
        """Returns the newest view request, once there is one."""
        while (wish := self._newest) is None:
            self._there.clear()
            await self._there.wait()
        self._newest = None
        return wish


def wish_of(text: str) -> ViewRequest:
    """Returns the view request that a browser sends: {lane, span, steps, origin} in JSON, numbers as such or as text.
    Raises ValueError."""
    try:
        asked = json.loads(text)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    if not isinstance(asked, dict):
        raise ValueError("not an object")
    return ViewRequest(
        name_of(asked, "lane"),
        clamped(whole_of(asked, "span"), LEAST_SPAN_NS, MOST_SPAN_NS),
        clamped(whole_of(asked, "steps"), 1, MOST_BUCKETS),
        time_of(asked, "origin"),
    )


def whole_of(asked: Mapping[str, Any], key: str) -> int:
    """Returns a whole number of at most 19 digits. Raises ValueError."""
    value = asked.get(key)
    text = str(value) if isinstance(value, str | int) and not isinstance(value, bool) else ""
    if not _WHOLE.fullmatch(text):
        raise ValueError(f"{key} is missing or not a whole number")
    return int(text)


def time_of(asked: Mapping[str, Any], key: str) -> int:
    """Returns nanoseconds since 1970. Raises ValueError."""
    value = whole_of(asked, key)
    if not 0 <= value <= LATEST_NS:
        raise ValueError(f"{key} is not a time from 1970 on")
    return value


def name_of(asked: Mapping[str, Any], key: str) -> str:
    """Returns a name. Raises ValueError."""
    value = asked.get(key)
    if not isinstance(value, str) or not 0 < len(value) <= LONGEST_NAME:
        raise ValueError(f"{key} is missing, not text, or too long")
    return value


def clamped(value: int, least: int, most: int) -> int:
    return min(max(value, least), most)
