"""A FIFO port, frame by frame: the frames that arrive, when each has left, and the wait of a probe.

The model uses frames and not a fluid, because if a change leaves no backlog, a probe waits for the frames themselves.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...ethernet import FULL_FRAME_WIRE_BYTES
from ..model.stats import Floats

MOST = 400_000  # frames that are queued; with more bytes, frames are larger


class ByteSpans(NamedTuple):
    """Bytes that each arrive evenly over a time. stretch: the stretch of the port that carried them. sender: a number;
    the bytes of one sender and stretch move together, −1 does not move. Times in ns; sorted by stretch."""

    stretch: NDArray[np.int64]
    sender: NDArray[np.int64]
    start: Floats
    length: Floats
    bytes: Floats

    def take(self, rows: NDArray[np.int64] | NDArray[np.bool_]) -> ByteSpans:
        """Returns the given rows; a row may be repeated."""
        return ByteSpans(self.stretch[rows], self.sender[rows], self.start[rows], self.length[rows], self.bytes[rows])


class QueuedFrames(NamedTuple):
    """Frames in order of arrival, and when each has left; a dropped one leaves with the frame before it."""

    time: Floats
    left: Floats
    dropped: NDArray[np.bool_]

    def wait(self, met: Floats) -> Floats:
        """Returns how long a packet that arrives at each time waits for the frames before it, ns."""
        before = np.searchsorted(self.time, met, side="right")
        return np.maximum(np.append(-np.inf, self.left)[before] - met, 0.0)

    def loss(self, met: Floats) -> Floats:
        """Returns the probability that a packet at each time is dropped: the share of drops among the frames before and
        after it."""
        after = np.searchsorted(self.time, met, side="right")
        lost = np.concatenate(([False], self.dropped, [False])).astype(float)
        waits = self.wait(met) > 0
        return np.where(waits, (lost[after] + lost[after + 1]) / 2, 0.0)


def frames_of(pieces: ByteSpans) -> tuple[Floats, Floats]:
    """Returns the time and bytes of the frames in order of arrival."""
    size = max(float(FULL_FRAME_WIRE_BYTES), float(pieces.bytes.sum()) / MOST)
    count = np.maximum(np.ceil(pieces.bytes / size - 0.5), 1).astype(np.int64)
    place = np.repeat(np.arange(len(count)), count)
    turn = np.arange(len(place)) - np.repeat(np.cumsum(count) - count, count)
    time = pieces.start[place] + pieces.length[place] * (turn / count[place])
    order = np.argsort(time, kind="stable")
    return time[order], (pieces.bytes / count)[place][order]


def queued(pieces: ByteSpans, bytes_per_ns: float, buffer_bytes: float = np.inf) -> QueuedFrames:
    """Sends frames through a FIFO port with drop tail: each begins when it has arrived and the previous one has
    left."""
    time, size = frames_of(pieces)
    work = size / bytes_per_ns
    if np.isinf(buffer_bytes):
        done = np.cumsum(work)
        left = done + np.maximum.accumulate(time - (done - work)) if len(work) else done
        return QueuedFrames(time, left, np.zeros(len(time), dtype=bool))
    room, free = buffer_bytes / bytes_per_ns, -np.inf
    left, dropped = np.empty(len(time)), np.zeros(len(time), dtype=bool)
    for k, (at, own) in enumerate(zip(time.tolist(), work.tolist(), strict=True)):
        if free - at + own > room:
            dropped[k] = True
        else:
            free = max(free, at) + own
        left[k] = free
    return QueuedFrames(time, left, dropped)
