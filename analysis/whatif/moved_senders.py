"""The senders of the traffic of a port while it was full, with their bytes moved: staggered starts, or fewer senders at
once.

The bytes of a sender in one full stretch stay together: a change moves their start, and they arrive as fast as before.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..cause.arriving import ArrivalCurve, FullStretches
from ..model.stats import Floats
from .frames import ByteSpans

STILL = -1  # the sender of bytes that do not move
MOST_MEMBERS = 128  # into which `other` is split


class SenderRows(NamedTuple):
    """The traffic of senders while a port was full, by when it left the port. ns; bytes on the wire.

    sender: a number, negative for several unknown senders (`other`): members is their number. beside: bytes of that
    sender outside of all full stretches.
    """

    sender: NDArray[np.int64]
    first: Floats
    last: Floats
    bytes: Floats
    members: Floats
    beside: Floats


def none_known() -> SenderRows:
    """Returns no senders."""
    return SenderRows(np.zeros(0, dtype=np.int64), *(np.zeros(0) for _ in range(5)))


def whole_pieces(full: FullStretches, curve: ArrivalCurve) -> ByteSpans:
    """Returns all bytes beyond the background, of any sender, spread evenly between the points of the curve."""
    place = np.maximum(np.searchsorted(full.begin, curve.time, side="right") - 1, 0)
    own = curve.until - full.begin[place] - full.background * (curve.time - full.begin[place])
    floor = np.concatenate(([0.0], np.cumsum(full.length)[:-1]))[place]  # so that stretches do not touch
    own = np.minimum.accumulate((np.maximum(own, 0) + floor)[::-1])[::-1] - floor
    inside = np.flatnonzero((place[1:] == place[:-1]) & (curve.time[1:] <= full.end[place[:-1]]))
    came = np.maximum(own[inside + 1] - own[inside], 0) * full.rate
    rows, came = inside[came > 0], came[came > 0]
    length = curve.time[rows + 1] - curve.time[rows]
    return ByteSpans(place[rows], np.full(len(rows), STILL), curve.time[rows], length, came)


def sender_pieces(
    full: FullStretches, curve: ArrivalCurve, whole: ByteSpans, rows: SenderRows, quiet_ns: float
) -> ByteSpans:
    """Returns the bytes by sender, if senders are known; the rest does not move. quiet_ns: recorded time outside of all
    stretches, in which a sender sends its bytes outside of bursts."""
    place = np.searchsorted(full.begin, rows.last, side="right") - 1
    safe = np.maximum(place, 0)
    begin, end = np.maximum(rows.first, full.begin[safe]), np.minimum(rows.last, full.end[safe])
    kept = np.flatnonzero((place >= 0) & (end >= begin))
    place, begin, end = place[kept], begin[kept], end[kept]
    part = np.where(rows.last > rows.first, (rows.last - rows.first), 1.0)[kept]
    volume = rows.bytes[kept] * np.where(rows.last[kept] > rows.first[kept], (end - begin) / part, 1.0)
    usual = rows.beside[kept] / max(quiet_ns, 1.0) * full.length[place]
    group, sent = grouped(place, rows.sender[kept], volume)
    bursting = np.maximum(sent - usual, 0) / np.maximum(sent, 1e-9)
    moving = np.flatnonzero((bursting >= 0.5) & (volume > 0))
    start = curve.coming(begin[moving])
    pieces = ByteSpans(
        place[moving],
        group[moving],
        start,
        np.maximum(curve.coming(end[moving]) - start, 0),
        (volume * bursting)[moving],
    )
    pieces = split(pieces, rows.members[kept][moving], rows.sender[kept][moving] < 0)
    return with_rest(pieces, whole, len(full.begin))


def grouped(place: NDArray[np.int64], sender: NDArray[np.int64], volume: Floats) -> tuple[NDArray[np.int64], Floats]:
    """Returns, for each row, a number for its sender and stretch, and the bytes of the sender in it."""
    if not len(place):
        return place, np.zeros(0)
    order = np.lexsort((sender, place))
    fresh = (np.diff(place[order], prepend=-1) != 0) | (np.diff(sender[order], prepend=sender[order[0]]) != 0)
    number = np.empty(len(place), dtype=np.int64)
    number[order] = np.cumsum(fresh)
    sent: Floats = np.bincount(number, volume).astype(np.float64)[number]
    return number, sent


def split(pieces: ByteSpans, members: Floats, several: NDArray[np.bool_]) -> ByteSpans:
    """Splits the bytes of several senders into equal parts, one for each sender."""
    count = np.where(several, np.clip(np.round(members), 1, MOST_MEMBERS), 1).astype(np.int64)
    place = np.repeat(np.arange(len(count)), count)
    turn = np.arange(len(place)) - np.repeat(np.cumsum(count) - count, count)
    sender = pieces.sender[place] * MOST_MEMBERS + turn
    return pieces.take(place)._replace(sender=sender, bytes=(pieces.bytes / count)[place])


def with_rest(pieces: ByteSpans, whole: ByteSpans, stretches: int) -> ByteSpans:
    """Returns the bytes of known senders, and the rest of the whole; never more than the whole of each stretch."""
    total = np.bincount(whole.stretch, whole.bytes, stretches)
    known = np.bincount(pieces.stretch, pieces.bytes, stretches)
    scale = np.minimum(1.0, total / np.maximum(known, 1e-9))
    left = np.maximum(0.0, 1 - known / np.maximum(total, 1e-9))
    left = np.where(left < 0.01, 0.0, left)
    pieces = pieces._replace(bytes=pieces.bytes * scale[pieces.stretch])
    rest = whole._replace(bytes=whole.bytes * left[whole.stretch])
    rest = rest.take(rest.bytes > 0)
    return ByteSpans(
        np.concatenate((pieces.stretch, rest.stretch)),
        np.concatenate((pieces.sender, rest.sender)),
        np.concatenate((pieces.start, rest.start)),
        np.concatenate((pieces.length, rest.length)),
        np.concatenate((pieces.bytes, rest.bytes)),
    )


def paced(pieces: ByteSpans, factor: float) -> ByteSpans:
    """Makes each sender of a stretch take FACTOR times as long for its bytes, from its first one on."""
    if not len(pieces.start):
        return pieces
    _, group = np.unique(np.column_stack((pieces.stretch, pieces.sender)), axis=0, return_inverse=True)
    first = np.full(int(group.max()) + 1, np.inf)
    np.minimum.at(first, group.ravel(), pieces.start)
    begin = first[group.ravel()]
    return pieces._replace(start=begin + factor * (pieces.start - begin), length=factor * pieces.length)


def ranks(pieces: ByteSpans, rng: np.random.Generator | None = None) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Returns the rank of each piece's sender in its stretch, and the number of senders there; in the order of their
    starts, or in random order with RNG."""
    if not len(pieces.stretch):
        return pieces.stretch, pieces.stretch
    order = np.lexsort((pieces.start, pieces.sender, pieces.stretch))
    fresh = (np.diff(pieces.stretch[order], prepend=-1) != 0) | (np.diff(pieces.sender[order], prepend=-2) != 0)
    group = np.empty(len(order), dtype=np.int64)
    group[order] = np.cumsum(fresh) - 1
    heads = order[fresh]
    key = pieces.start[heads] if rng is None else rng.random(len(heads))
    stretch = pieces.stretch[heads]
    sorted_ = np.lexsort((key, stretch))
    count = np.bincount(stretch)
    turn = np.empty(len(heads), dtype=np.int64)
    turn[sorted_] = np.arange(len(heads)) - np.repeat(np.cumsum(count) - count, count)
    return turn[group], count[stretch][group]


def staggered(pieces: ByteSpans, over_ns: float, rng: np.random.Generator | None = None) -> ByteSpans:
    """Starts the senders of each stretch one after the other: the first as recorded, the last later by `over_ns`."""
    moving = pieces.sender != STILL
    turn, count = ranks(pieces.take(moving), rng)
    start = pieces.start.copy()
    start[moving] += over_ns * turn / np.maximum(count - 1, 1)
    return pieces._replace(start=start)


def in_waves(
    pieces: ByteSpans, most: int, rates: tuple[float, float], rng: np.random.Generator | None = None
) -> ByteSpans:
    """Allows at most MOST senders of a stretch at once: each wave begins when the previous one has been carried. rates:
    of the link and of the background, bytes per ns; background that arrived since the wave began is carried with it."""
    moving = np.flatnonzero(pieces.sender != STILL)
    if not len(moving):
        return pieces
    turn, _ = ranks(pieces.take(moving), rng)
    wave, stretch = turn // most, pieces.stretch[moving]
    start = pieces.start.copy()
    free = np.full(int(stretch.max()) + 1, -np.inf)
    for number in range(int(wave.max()) + 1):
        own = moving[wave == number]
        place = pieces.stretch[own]
        begin, end = np.full(len(free), np.inf), np.full(len(free), -np.inf)
        np.minimum.at(begin, place, start[own])
        np.maximum.at(end, place, start[own] + pieces.length[own])
        volume = np.bincount(place, pieces.bytes[own], len(free))
        late = np.maximum(free - begin, 0)
        start[own] += late[place]
        span = np.where(np.isfinite(begin), end - begin, 0.0)
        took = np.maximum((volume + rates[1] * span) / rates[0], span)
        free = np.where(np.isfinite(begin), begin + late + took, free)
    return pieces._replace(start=start)
