"""Whether the sources agree: the traffic that a switch port reports as sent must match what the recorded host behind it
received.

Three values of a port are compared with its recorded bins: the bytes that the port counted in a window, the bytes that
its queues sent, and the depth of its queue (waiting bytes must leave through this port, at nine tenths of line rate or
faster). Clocks may differ, and devices count frames in different ways: both are estimated and reported. Times are ns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...ethernet import FULL_FRAME_WIRE_BYTES
from ...units import format_bytes, format_count, format_duration, format_share
from ..model.stats import Floats
from .evidence.switch import PortQueue
from .port import FULL, Port
from .signals import before, stopped

WITHIN = 0.02  # of a window's bytes: allows for frames of other lengths, and for rounding by the device
LEAST = 5  # windows, to compare anything
ENOUGH = 0.99  # share of the windows, to agree
NEARER = 0.5  # share of the windows from which clocks and framing are estimated
STEPS = 16  # parts of a window: steps of the search for the clock offset, then of a step, down to half a bin
FEW = 64  # windows up to which each fine step is tried, since coarse steps may miss the right offset
MOST = 8  # offsets that are compared window by window
APART = 0.5  # the largest share of the error that another clock offset may leave to be accepted
# Bytes of a frame that a device counts in addition to the link layer without FCS.
FRAMING = {
    -14: "packets without their link layer", 0: "frames without FCS", 4: "frames with FCS",
    8: "frames with FCS and a VLAN tag", 24: "frames with FCS, preamble and gap", 54: "frames with FCS in VXLAN",
}  # fmt: skip
ALIKE = 0.003  # share of a window's bytes by which two explanations may differ at its edges
UNEXPLAINED = 0.01  # share of the bytes that the switch counted in excess
AS_WELL = 5  # if the error is at most this many times that of another explanation, both are possible
PLAIN, TUNNELLED = 4, 54  # tunnel headers make as much of a difference as some lost frames


class SwitchWindows(NamedTuple):
    """Counts of a switch in windows of a port, sorted by end. was_reset: a counter was reset in the window. edge_ns:
    the possible error of the edges, if known."""

    name: str
    start: Floats
    end: Floats
    bytes: Floats
    was_reset: NDArray[np.bool_]
    edge_ns: float = 0.0


class BinContent(NamedTuple):
    """The content of a port's bins in each of those windows. lossy: the recorder reports lost packets in the window."""

    bytes: Floats
    wire_bytes: Floats
    packets: Floats
    lossy: NDArray[np.bool_]


class Agreement(NamedTuple):
    """One comparison. state: agree, disagree, or untested. blamed: who is wrong if they disagree: host, switch or link;
    empty if that cannot be determined. ratio: bytes of the switch divided by those of the host. lag_ns: how late the
    clock of the switch is compared to that of the host."""

    what: str
    source: str
    port: str
    state: str
    said: str
    windows: int = 0
    agreeing: int = 0
    ratio: float | None = None
    framing: str = ""
    lag_ns: float | None = None
    blamed: str = ""


class ComparedWindows(NamedTuple):
    """Windows within recorded time, with the expected, the smallest and the largest possible bytes of each."""

    rows: NDArray[np.int64]
    expected: Floats
    low: Floats
    high: Floats
    framing: int

    def take(self, kept: NDArray[np.bool_]) -> ComparedWindows:
        return ComparedWindows(self.rows[kept], self.expected[kept], self.low[kept], self.high[kept], self.framing)


def counted(
    what: str, port: Port, counts: SwitchWindows, holding: Callable[[SwitchWindows], BinContent], filtered: bool = False
) -> Agreement:
    """Compares the bytes that a switch counted with the recording. holding: returns the content of the bins in
    windows."""
    why = "fewer than five windows lie in the recorded time"
    at_once = comparable(port, counts, holding(counts))
    if len(at_once) < LEAST:
        return untested(what, counts.name, port, why)
    lag = clocks_apart(port, counts, holding, at_once)
    shifted, holds, seen, good, kept = compared_at(port, counts, holding, lag)
    came = counts.bytes[seen.rows]
    if len(came) < LEAST:
        return untested(what, counts.name, port, why)
    wire = float(volume(port, shifted.start[seen.rows], shifted.end[seen.rows]).sum())
    state, blamed, said = outcome(came, seen, good, holds, filtered)
    if state == "agree" and (lost := lost_instead(port, shifted, holds, seen)):
        state = "untested"
        said += f"; {format_share(lost)} of them lost before the recorder, which does not report it, fit as well"
    if lag:
        said += f"; the switch's clock is {format_duration(abs(lag))} {'after' if lag > 0 else 'before'} the host's"
    if not kept.all():
        said += f"; {format_count(int((~kept).sum()), 'window')} at an end of the compared time left out"
    if counts.was_reset.any():
        said += f"; {format_count(int(counts.was_reset.sum()), 'window')} left out, in which a counter was reset"
    return Agreement(what, counts.name, port.name, state, said, len(came), int(good.sum()),
                     float(came.sum()) / max(wire, 1.0), FRAMING[seen.framing], lag, blamed)  # fmt: skip


class ShiftedComparison(NamedTuple):
    """The windows at a clock offset, the content of the bins in them, and which of the compared windows agree. kept:
    which of all comparable windows are compared; disagreeing windows at an end are left out."""

    shifted: SwitchWindows
    holds: BinContent
    seen: ComparedWindows
    good: NDArray[np.bool_]
    kept: NDArray[np.bool_]


def compared_at(
    port: Port, counts: SwitchWindows, holding: Callable[[SwitchWindows], BinContent], lag: float
) -> ShiftedComparison:
    """Returns the comparison if the clock of the switch is LAG behind that of the host."""
    shifted = counts._replace(start=counts.start - lag, end=counts.end - lag)
    holds = holding(shifted)
    seen = compare(port, shifted, holds, comparable(port, shifted, holds))
    came = counts.bytes[seen.rows]
    good = (came >= seen.low) & (came <= seen.high)
    good |= evened_out(came, seen, good)
    kept = good | ~at_an_end(seen.rows)
    return ShiftedComparison(shifted, holds, seen.take(kept), good[kept], kept)


def comparable(port: Port, counts: SwitchWindows, holds: BinContent) -> NDArray[np.int64]:
    """Returns the windows that lie in recorded time and have packets."""
    return np.flatnonzero(inside(port, counts.start, counts.end) & ~counts.was_reset & (holds.packets > 0))


def untested(what: str, source: str, port: Port, why: str) -> Agreement:
    return Agreement(what, source, port.name, "untested", why)


def inside(port: Port, start: Floats, end: Floats) -> NDArray[np.bool_]:
    """Returns which intervals lie in one recorded stretch."""
    places = np.isfinite(port.position(start)) & np.isfinite(port.position(end))
    stretch = np.searchsorted(port.starts, (start, end), side="right")
    return np.asarray(places & (stretch[0] == stretch[1]))


def volume(port: Port, start: Floats, end: Floats) -> Floats:
    """Returns the wire bytes between times; NaN unless all of that time is recorded."""
    first, last = (np.nan_to_num(port.position(time), nan=0.0) for time in (start, end))
    found: Floats = np.maximum(port.carried_before(last) - port.carried_before(first), 0.0)
    return np.where(inside(port, start, end), found, np.nan)


def per_wire(holds: BinContent, extra: int) -> Floats:
    """Returns the bytes that a device counts per wire byte, if it counts EXTRA more bytes of each frame."""
    found: Floats = (holds.bytes + extra * holds.packets) / np.maximum(holds.wire_bytes, 1.0)
    return found


def error(came: Floats, expected: Floats) -> float:
    """Returns errors() of one row."""
    return float(errors(came, expected[None])[0])


def errors(came: Floats, expected: Floats) -> Floats:
    """Returns the error of the closest counts (a share of NEARER), for each row of EXPECTED. Edges that a device stamps
    late, and counter resets, carry no information on clocks and framing. Infinite if less than half of a row is
    known."""
    known = np.isfinite(expected)
    count = known.sum(axis=1)
    whole = np.maximum(np.where(known, expected, 0.0).sum(axis=1), 1.0)
    off = np.where(known, np.abs(came - expected), np.inf) / whole[:, None]
    nearer = np.maximum(np.rint(NEARER * count).astype(int), 1)
    sums = np.cumsum(np.sort(off, axis=1), axis=1)[np.arange(len(off)), nearer - 1]
    return np.where(2 * count < len(came), np.inf, sums / nearer)


def clocks_apart(
    port: Port, counts: SwitchWindows, holding: Callable[[SwitchWindows], BinContent], rows: NDArray[np.int64]
) -> float:
    """Returns how late the clock of the switch is compared to that of the host, if another offset fits much better;
    else 0. Each offset is tried with its best framing. If several offsets fit, as with few windows, the one at which
    most windows agree is returned. An offset is also accepted if nearly all windows agree at it and not at 0."""
    start, end, came = counts.start[rows], counts.end[rows], counts.bytes[rows]
    width, holds = float(np.median(end - start)), holding(counts)
    parts = [per_wire(holds, extra)[rows] for extra in FRAMING]

    def errors_at(lags: Floats) -> Floats:
        wire = volume(port, start - lags[:, None], end - lags[:, None])
        found: Floats = np.stack([errors(came, wire * part) for part in parts]).min(axis=0)
        return found

    def agreeing(lag: float) -> float:
        good = compared_at(port, counts, holding, lag).good
        return float(good.mean()) if len(good) >= LEAST else 0.0

    likely = least_apart(errors_at, width, width / STEPS**2 if len(rows) <= FEW else width / STEPS, port.bin_ns / 2)
    left = dict(zip(likely, errors_at(np.array(likely)), strict=True))
    better = [at for at in likely if left[at] < APART * errors_at(np.zeros(1))[0]]
    if not better and agreeing(0.0) < ENOUGH:
        better = [at for at in likely if agreeing(at) >= ENOUGH]
    return max(better, key=lambda at: (agreeing(at), -left[at]), default=0.0)


def least_apart(errors_at: Callable[[Floats], Floats], width: float, step: float, finest: float) -> list[float]:
    """Returns up to MOST offsets of at most WIDTH with the smallest errors: first in steps of STEP, at most one per
    coarse step, then each in ever finer parts of a step."""
    steps = round(width / step)
    lags = step * np.arange(-steps, steps + 1)
    found: list[float] = []
    for at in lags[np.lexsort((np.abs(lags), errors_at(lags)))].tolist():
        if len(found) < MOST and all(abs(at - other) > width / STEPS / 2 for other in found):
            found.append(at)
    while step >= finest:
        step /= STEPS
        beside = [at + step * np.arange(-STEPS, STEPS + 1) for at in found]
        found = [float(lags[np.argmin(errors_at(lags))]) for lags in beside]
    return found


def compare(
    port: Port, counts: SwitchWindows, holds: BinContent, rows: NDArray[np.int64], framings: Iterable[int] = FRAMING
) -> ComparedWindows:
    """Returns the windows with the bytes to expect, by the framing that fits best. Edges may be off by two bins, or by
    the resolution of the clocks."""
    start, end = counts.start[rows], counts.end[rows]
    slack = max(2.0 * port.bin_ns, float(np.median(end - start)) / STEPS**2, counts.edge_ns)
    wire = volume(port, start, end)
    low = volume(port, start + slack, np.maximum(end - slack, start + slack))
    high = volume(port, start - slack, end + slack)
    extra = min(framings, key=lambda more: error(counts.bytes[rows], wire * per_wire(holds, more)[rows]))
    part = per_wire(holds, extra)[rows]
    found = ComparedWindows(
        rows,
        part * wire,
        (1 - WITHIN) * part * low - FULL_FRAME_WIRE_BYTES,
        (1 + WITHIN) * part * high + FULL_FRAME_WIRE_BYTES,
        extra,
    )
    return found.take(np.isfinite(low) & np.isfinite(high) & np.isfinite(wire))


def lost_instead(port: Port, counts: SwitchWindows, holds: BinContent, seen: ComparedWindows) -> float:
    """Returns the share of bytes that the recorder would have lost evenly if the switch had counted plain frames; 0
    unless this fits about as well as a tunnel's headers, or as a framing that leaves more than UNEXPLAINED. If all
    frames have one length, the two cannot be distinguished."""
    plain, left = compare(port, counts, holds, seen.rows, [PLAIN]), counts.bytes[seen.rows].sum() / seen.expected.sum()
    if seen.framing != TUNNELLED and left < 1 + UNEXPLAINED:
        return 0.0
    came = counts.bytes[plain.rows]
    more = float(came.sum()) / max(float(plain.expected.sum()), 1.0)
    noise = ALIKE / max(len(came), 1)
    as_well = error(came, more * plain.expected) <= AS_WELL * error(counts.bytes[seen.rows], seen.expected) + noise
    return 1 - 1 / more if more > 1 and as_well else 0.0


def at_an_end(rows: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Returns which windows lack a compared neighbour on one side; that neighbour may have their missing bytes."""
    apart = np.diff(rows) != 1
    return np.concatenate(([True], apart)) | np.concatenate((apart, [True]))


def evened_out(came: Floats, seen: ComparedWindows, good: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Returns which windows do not fit alone, but do together with one or two neighbours: the device stamped the edge
    between them late."""
    even = np.zeros(len(came), dtype=bool)
    for count in (2, 3):
        if len(came) < count:
            break
        total, low, high, bad = (
            np.lib.stride_tricks.sliding_window_view(values, count).sum(axis=1)
            for values in (came, seen.low, seen.high, (~good).astype(float))
        )
        beside = seen.rows[count - 1 :] - seen.rows[: len(seen.rows) - count + 1] == count - 1
        fit = np.flatnonzero((total >= low) & (total <= high) & (bad > 0) & beside)
        even[(fit[:, None] + np.arange(count)).ravel()] = True
    return even


def outcome(
    came: Floats, seen: ComparedWindows, good: NDArray[np.bool_], holds: BinContent, filtered: bool
) -> tuple[str, str, str]:
    """Returns the state, who is wrong, and a sentence."""
    if good.mean() >= ENOUGH:
        return "agree", "", f"the same bytes, if the switch counts {FRAMING[seen.framing]}"
    less, more = came < seen.low, came > seen.high
    less, more = less & ~good, more & ~good
    off = float(came.sum() / max(float(seen.expected.sum()), 1.0)) - 1
    said = (
        f"{format_count(int((~good).sum()), 'window')} of {len(good):,} disagree, in all the switch counted "
        f"{format_share(abs(off))} {'more' if off > 0 else 'less'}"
    )
    if off > 0 and holds.lossy[seen.rows][~good].mean() > 0.5:
        return "disagree", "host", f"{said}: the recorder reports lost packets in them"
    if off > 0 and filtered:
        return "disagree", "host", f"{said}: the recording was taken with a filter"
    if not more.any() and less.mean() <= 0.5:
        wrapped = "a counter wrapped or was reset, since the host cannot receive more than was sent"
        return "disagree", "switch", f"{said}: {wrapped}"
    return "disagree", "", said


def drained(port: Port, queue: PortQueue, lag: float) -> Agreement:
    """Compares the depths of a queue with what left through its port: from that moment, the link must carry FULL of it
    or more for the time that it needs at line rate, as while a packet waits (Port.waits). Windows in which pause frames
    may have stopped the port are left out."""
    what, deep = "depth of the queue", queue.max_bytes > np.maximum(10.0 * FULL_FRAME_WIRE_BYTES, 4 * port.bin_bytes)
    slack, needed = 4.0 * port.bin_ns, queue.max_bytes * 8e9 / port.link_bps
    start, end = queue.start - lag - slack, queue.end - lag + slack
    rows = np.flatnonzero(deep & inside(port, start, end + needed + 2 * slack))
    asked = asked_to_stop(port, start[rows], end[rows] + needed[rows] + 2 * slack)
    said_of_pauses = f"; {format_count(int(asked.sum()), 'window')} with pause frames left out" if asked.any() else ""
    rows = rows[~asked]
    if len(rows) < LEAST:
        why = f"fewer than five windows with a queue lie in the recorded time{said_of_pauses}"
        return untested(what, queue.name, port, why)
    depth, span = queue.max_bytes[rows], np.ceil((needed[rows] + 2 * slack) / port.bin_ns).astype(np.int64)
    left = most_carried(port, port.position(start[rows]), port.position(end[rows]), span)
    good = left + FULL_FRAME_WIRE_BYTES >= FULL * depth
    agreeing, n = int(good.sum()), len(rows)
    if good.mean() >= 0.95:
        said = f"what waited has left: the link carried each queue in the time that it needs{said_of_pauses}"
        return Agreement(what, queue.name, port.name, "agree", said, n, agreeing)
    worst = int(np.argmax(depth - left))
    said = (
        f"{format_count(n - agreeing, 'window')} of {n:,} show a queue that did not leave through this port, such as "
        f"{format_bytes(float(depth[worst]))}, when it carried at most {format_bytes(float(left[worst]))} in "
        f"{format_duration(float(span[worst] * port.bin_ns))}{said_of_pauses}"
    )
    return Agreement(what, queue.name, port.name, "disagree", said, n, agreeing)


def asked_to_stop(port: Port, start: Floats, end: Floats) -> NDArray[np.bool_]:
    """Returns whether pause frames may have stopped the port between times of its recording."""
    if port.signals is None or not port.signals.pauses.any():
        return np.zeros(len(start), dtype=bool)
    sums = stopped(port, port.signals)
    return np.asarray(before(sums, port.position(end)) > before(sums, port.position(start)))


def most_carried(port: Port, first: Floats, last: Floats, span: NDArray[np.int64]) -> Floats:
    """Returns the most wire bytes in any `span` consecutive bins that begin between two positions."""
    found = np.zeros(len(span))
    lows, highs = np.floor(first).astype(np.int64), np.ceil(last).astype(np.int64)
    for k, (low, high, bins) in enumerate(zip(lows.tolist(), highs.tolist(), span.tolist(), strict=True)):
        begin = np.arange(low, max(min(high, port.bins - bins), low) + 1)
        found[k] = (port.carried[np.minimum(begin + bins, port.bins)] - port.carried[begin]).max()
    return found


def grown(port: Port, queue: PortQueue, backlog: Floats, lag: float) -> Agreement:
    """Compares the depths of a queue with what the recorded senders sent less what the link can carry: no queue grows
    faster. backlog: at the end of each of the port's bins."""
    what, slack = "growth of the queue", 4.0 * port.bin_ns
    start, end = queue.start - lag, queue.end - lag
    rows = np.flatnonzero((queue.max_bytes > 10 * FULL_FRAME_WIRE_BYTES) & inside(port, start - slack, end + slack))
    if len(rows) < LEAST:
        return untested(what, queue.name, port, "fewer than five windows with a queue lie in the recorded time")
    first = np.floor(port.position(start[rows] - slack)).astype(np.int64)
    last = np.minimum(np.ceil(port.position(end[rows] + slack)).astype(np.int64), port.bins - 1)
    most = np.array([backlog[a : b + 1].max() for a, b in zip(first.tolist(), last.tolist(), strict=True)])
    good = queue.max_bytes[rows] <= 1.1 * most + 4 * port.bin_bytes + 10 * FULL_FRAME_WIRE_BYTES
    agreeing, n = int(good.sum()), len(rows)
    state = "agree" if good.mean() >= 0.95 else "disagree"
    said = (
        "no queue was deeper than what the recorded senders sent beyond line rate" if state == "agree" else
        f"{format_count(n - agreeing, 'window')} of {n:,} show more than the recorded senders sent beyond line rate"
    )  # fmt: skip
    return Agreement(what, queue.name, port.name, state, said, n, agreeing)
