"""Frames that ask the senders of a port's traffic to stop (pause frames, 802.3x and PFC) or to send slower (congestion
notifications). They are recorded in the other direction of the same link.

A pause frame asks for a time, and the next one replaces the rest of it; these are therefore the longest times for which
a port may have been stopped. If all classes were asked, a stopped port sends nothing, so it was stopped for no longer
than its link was idle. If only some classes were asked, the others may have filled the link in that time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ..model.flow_control import CLASSES, classes_of
from ..model.stats import Floats, Whole, join_runs

if TYPE_CHECKING:
    from .port import Port

Spans = tuple[Floats, Floats]


class Signals(NamedTuple):
    """The bins of the other direction with such frames, in the order of time: one entry each.

    at: begin, ns since the origin. asked: the longest time that a pause frame of the bin asks for, ns. classes: bits of
    the classes that were asked to stop. pauses, resumes, notifications: number of frames.
    """

    bin_ns: int
    at: Floats
    asked: Floats
    classes: Whole
    pauses: Whole
    resumes: Whole
    notifications: Whole

    @property
    def asked_classes(self) -> tuple[int, ...]:
        """The classes that were ever asked to stop."""
        return classes_of(int(np.bitwise_or.reduce(self.classes, initial=0)))

    @property
    def is_whole_link(self) -> bool:
        """Whether each pause was of all classes."""
        of_pauses = self.classes[self.pauses > 0]
        return bool(len(of_pauses)) and bool((of_pauses == (1 << CLASSES) - 1).all())

    def windows(self) -> Spans:
        """Returns the begin and end of the times for which the port may have been stopped, ns: sorted and disjoint.

        A resume frame in a later bin ends a pause, unless several sets of classes were asked: the recording does not
        state which of them it is for.
        """
        pausing, resuming = self.pauses > 0, self.at[self.resumes > 0]
        begin = self.at[pausing]
        end = begin + self.bin_ns + self.asked[pausing]
        if len(resuming) and len(np.unique(self.classes[pausing])) == 1 and self.asked_together():
            following = np.searchsorted(resuming, begin, side="right")
            ended = np.append(resuming, np.inf)[following] + self.bin_ns
            end = np.minimum(end, ended)
        return join_runs(begin, np.maximum.accumulate(end), 0.0)

    def asked_together(self) -> bool:
        """Returns whether a resume frame can only refer to all that was asked to stop: one class, or the whole link."""
        return len(self.asked_classes) in (1, CLASSES)


def stopped(port: Port, signals: Signals) -> Floats:
    """Returns how long in total the port may have been stopped before each bin edge of its recorded time, ns."""
    begin, end = (edges_of(port, time) for time in signals.windows())
    if not len(begin):
        return np.zeros(port.bins + 1)
    edges = np.column_stack((begin, end)).ravel()
    sums = np.repeat(np.append(0.0, np.cumsum(end - begin)), 2)[1:-1]
    bins: Floats = np.diff(np.interp(np.arange(port.bins + 1.0), edges, sums))
    if signals.is_whole_link:
        bins = np.minimum(bins, np.maximum(1 - np.diff(port.carried) / port.bin_bytes, 0))
    return np.concatenate(([0.0], np.cumsum(bins))) * port.bin_ns


def edges_of(port: Port, time: Floats) -> Floats:
    """Returns positions of times; times between recorded stretches are at the end of the earlier one."""
    stretch = np.maximum(np.searchsorted(port.starts, time, side="right") - 1, 0)
    length = np.diff(port.offsets)[stretch].astype(float)
    inside: Floats = np.clip((time - port.starts[stretch]) / port.bin_ns, 0.0, length)
    return port.offsets[stretch] + inside


def before(cumulative: Floats, position: Floats) -> Floats:
    """Returns the sum over bins before each position, spread evenly inside a bin."""
    whole = np.clip(position.astype(np.int64), 0, max(len(cumulative) - 2, 0))
    found: Floats = cumulative[whole] + (position - whole) * (cumulative[whole + 1] - cumulative[whole])
    return found


def backlogged(port: Port, cumulative: Floats) -> Spans:
    """Returns the begin and end, in positions, of the times in which the port was full or may have been stopped: any of
    the pauses in one may have delayed a packet that waited in it. Gaps of two bins do not end one."""
    stops = np.flatnonzero(np.diff(cumulative) > 0).astype(float)
    full = port.busy_periods()
    begin, end = np.concatenate((full[0], stops)), np.concatenate((full[1], stops + 1))
    order = np.argsort(begin, kind="stable")
    return port.joined(begin[order], np.maximum.accumulate(end[order]), 2.0)
