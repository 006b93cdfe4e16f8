"""The output port of a switch: one first-in first-out queue of whole frames, drop-tail, drained at line rate."""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from .scenario import wire_ps

Ints = npt.NDArray[np.int64]

DROPPED = -1
MAX_DOUBLINGS = 9  # most doublings of a retransmission timeout: 200 ms grows to 102 s, near Linux's limit of 120 s


class DropTailPort:
    """A drop-tail queue. A frame occupies the buffer from its arrival until its last bit has left; a frame that finds
    too little room is dropped as a whole. A frame that arrives exactly when another leaves finds its room free.

    Bytes are those of the frame without FCS; the line is also busy for preamble, FCS and gap. Times are picoseconds.
    """

    def __init__(self, link_bps: int, buffer_bytes: int) -> None:
        self.buffer_bytes = buffer_bytes
        self.occupied = 0  # bytes, after the last offer
        self._free_at = 0  # when the line has sent everything accepted so far
        self._leaving: deque[tuple[int, int]] = deque()  # (end of transmission, bytes)
        self._wire_ps: dict[int, int] = {}
        self._link_bps = link_bps

    def wire_ps(self, length: int) -> int:
        """Returns the picoseconds for which a frame of `length` bytes occupies the line."""
        if length not in self._wire_ps:
            self._wire_ps[length] = wire_ps(length, self._link_bps)
        return self._wire_ps[length]

    def offer(self, now: int, length: int) -> int:
        """Returns when the frame that arrives at `now` begins to leave, or DROPPED. Arrivals must be in time order."""
        leaving = self._leaving
        while leaving and leaving[0][0] <= now:
            self.occupied -= leaving.popleft()[1]
        if self.occupied + length > self.buffer_bytes:
            return DROPPED
        begin = max(now, self._free_at)
        self._free_at = begin + self.wire_ps(length)
        leaving.append((self._free_at, length))
        self.occupied += length
        return begin


class Passage(NamedTuple):
    """The fate of every frame at a port, in order of arrival; a retransmitted frame appears again."""

    frame: Ints  # index of the frame that was offered
    arrival_ps: Ints
    begin_ps: Ints  # of its transmission, or DROPPED
    end_ps: Ints  # when its last bit has left, or DROPPED
    level: Ints  # bytes in the buffer right after the offer, including the frame if it was accepted


def never(frame: int) -> bool:
    """Never retransmit: for senders that do not notice a loss."""
    return False


def carry(
    port: DropTailPort, arrival_ps: Ints, length: Ints, again: Callable[[int], bool] = never, rto_ps: int = 0
) -> Passage:
    """Offer frames in order of arrival. A dropped one with a true `again(frame)` arrives again `rto_ps` later; if it is
    dropped again, after twice that time, and so on."""
    arrivals: Sequence[int] = arrival_ps.tolist()
    lengths: Sequence[int] = length.tolist()
    retries: list[tuple[int, int, int]] = []  # (arrival, frame, times sent before): a heap
    rows: list[tuple[int, int, int, int, int]] = []
    following = 0
    while following < len(arrivals) or retries:
        if retries and (following == len(arrivals) or retries[0][0] < arrivals[following]):
            now, frame, sent = heapq.heappop(retries)
        else:
            now, frame, sent = arrivals[following], following, 0
            following += 1
        begin = port.offer(now, lengths[frame])
        if begin == DROPPED:
            rows.append((frame, now, DROPPED, DROPPED, port.occupied))
            if again(frame):
                heapq.heappush(retries, (now + (rto_ps << min(sent, MAX_DOUBLINGS)), frame, sent + 1))
        else:
            rows.append((frame, now, begin, begin + port.wire_ps(lengths[frame]), port.occupied))
    return Passage(*np.array(rows, np.int64).reshape(-1, 5).T)


def watermarks(passage: Passage, length: Ints, edges_ps: Ints) -> tuple[Ints, Ints]:
    """Returns for each window [edge, next edge) the largest number of bytes in the buffer, and the number of dropped
    frames.

    `length` is that of the offered frames, as in carry().
    """
    accepted = passage.begin_ps != DROPPED
    size = np.where(accepted, length[passage.frame], 0)
    came = np.concatenate([[0], np.cumsum(size)])
    left = np.concatenate([[0], np.cumsum(size[accepted])])  # FIFO: frames leave in order of arrival
    first = np.searchsorted(passage.arrival_ps, edges_ps)  # the first offer at or after each edge
    gone = np.searchsorted(passage.end_ps[accepted], edges_ps, side="right")
    standing = (came[first] - left[gone])[:-1]  # what is in the buffer at the start of a window
    highest = np.append(passage.level, 0)
    # For an empty window, reduceat() returns the element at the index itself. Such a window has no offer.
    peak = np.maximum.reduceat(highest, first)[:-1] if len(first) else highest
    dropped = np.concatenate([[0], np.cumsum(~accepted)])
    return np.where(first[1:] > first[:-1], np.maximum(standing, peak), standing), np.diff(dropped[first])
