"""Do the sources agree? What a switch port says that it sent must be what the recorded host behind it received.

Three statements about one port are held against its recorded bins: bytes that the port counted in a window, bytes that
its queues sent, and how deep its queue was (what waited must leave through this port, at nine tenths of line rate or
faster). Clocks may be apart, and devices count frames in different ways: both are estimated and reported. Times are ns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...units import format_bytes, format_count, format_duration, format_share
from ..model.stats import Floats
from .evidence.switch import PortQueue
from .port import FRAME, FULL, Port
from .signals import before, stopped

WITHIN = 0.02  # of a window's bytes: frames of other lengths, and what a device rounds
LEAST = 5  # windows, to compare anything
ENOUGH = 0.99  # of the windows, to agree
NEARER = 0.5  # of the windows, from which clocks and framing are estimated
STEPS = 16  # of a window, in which the clocks' distance is looked for, then of a step, down to half a bin
FEW = 64  # windows, for which each fine step is looked at, since coarse ones may miss the right distance
MOST = 8  # distances that are compared window by window
APART = 0.5  # of the error, at most, that another distance of the clocks must leave to be believed
# Bytes that a device counts of a frame beyond those of its link layer without FCS.
FRAMING = {
    -14: "packets without their link layer", 0: "frames without FCS", 4: "frames with FCS",
    8: "frames with FCS and a VLAN tag", 24: "frames with FCS, preamble and gap", 54: "frames with FCS in VXLAN",
}  # fmt: skip
ALIKE = 0.003  # of a window's bytes, by which two explanations may differ at its edges
UNEXPLAINED = 0.01  # of the bytes, that the switch counted more in all
AS_WELL = 5  # times the error of another explanation: no worse than that, and both are possible
PLAIN, TUNNELLED = 4, 54  # the latter make as much of a difference as some lost frames


class SwitchWindows(NamedTuple):
    """What a switch counted in windows of a port, sorted by end. began_anew: a counter was reset in it. edge_ns: how
    far off their edges may be, as far as that is known."""

    name: str
    start: Floats
    end: Floats
    bytes: Floats
    began_anew: NDArray[np.bool_]
    edge_ns: float = 0.0


class BinContent(NamedTuple):
    """What the bins of a port hold in each of those windows. lossy: packets were lost in it, as the recorder says."""

    bytes: Floats
    wire_bytes: Floats
    packets: Floats
    lossy: NDArray[np.bool_]


class Agreement(NamedTuple):
    """One comparison. state: agree, disagree, or untested. blamed: who is wrong where they disagree: host, switch or
    link; empty where that cannot be determined. ratio: switch's bytes over the host's; lag_ns: of the switch's clock
    after the host's."""

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
    """Windows that lie in recorded time: expected bytes of each, the least and the most that they may be."""

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
    """The bytes that a switch counted, against what was recorded. holding: what the bins hold in windows."""
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
    if counts.began_anew.any():
        said += f"; {format_count(int(counts.began_anew.sum()), 'window')} left out, in which a counter was reset"
    return Agreement(what, counts.name, port.name, state, said, len(came), int(good.sum()),
                     float(came.sum()) / max(wire, 1.0), FRAMING[seen.framing], lag, blamed)  # fmt: skip


class ShiftedComparison(NamedTuple):
    """The windows at a distance of the clocks, what the bins hold in them, and which of those that are compared agree.
    kept: of all that could be compared, which are; windows at an end that do not agree are left out."""

    shifted: SwitchWindows
    holds: BinContent
    seen: ComparedWindows
    good: NDArray[np.bool_]
    kept: NDArray[np.bool_]


def compared_at(
    port: Port, counts: SwitchWindows, holding: Callable[[SwitchWindows], BinContent], lag: float
) -> ShiftedComparison:
    """The comparison if the switch's clock is LAG after the host's."""
    shifted = counts._replace(start=counts.start - lag, end=counts.end - lag)
    holds = holding(shifted)
    seen = compare(port, shifted, holds, comparable(port, shifted, holds))
    came = counts.bytes[seen.rows]
    good = (came >= seen.low) & (came <= seen.high)
    good |= evened_out(came, seen, good)
    kept = good | ~at_an_end(seen.rows)
    return ShiftedComparison(shifted, holds, seen.take(kept), good[kept], kept)


def comparable(port: Port, counts: SwitchWindows, holds: BinContent) -> NDArray[np.int64]:
    """The windows that lie in recorded time, and in which something came."""
    return np.flatnonzero(inside(port, counts.start, counts.end) & ~counts.began_anew & (holds.packets > 0))


def untested(what: str, source: str, port: Port, why: str) -> Agreement:
    return Agreement(what, source, port.name, "untested", why)


def inside(port: Port, start: Floats, end: Floats) -> NDArray[np.bool_]:
    """Which intervals lie in one recorded stretch."""
    places = np.isfinite(port.position(start)) & np.isfinite(port.position(end))
    stretch = np.searchsorted(port.starts, (start, end), side="right")
    return np.asarray(places & (stretch[0] == stretch[1]))


def volume(port: Port, start: Floats, end: Floats) -> Floats:
    """Wire bytes between times; what is not recorded counts nothing."""
    first, last = (np.nan_to_num(port.position(time), nan=0.0) for time in (start, end))
    found: Floats = np.maximum(port.carried_before(last) - port.carried_before(first), 0.0)
    return np.where(inside(port, start, end), found, np.nan)


def per_wire(holds: BinContent, extra: int) -> Floats:
    """Bytes that a device counts of a wire byte, if it counts so many more of each frame."""
    found: Floats = (holds.bytes + extra * holds.packets) / np.maximum(holds.wire_bytes, 1.0)
    return found


def error(came: Floats, expected: Floats) -> float:
    """errors() of one row."""
    return float(errors(came, expected[None])[0])


def errors(came: Floats, expected: Floats) -> Floats:
    """How far off the nearer part of the counts (NEARER) is, of each row of EXPECTED: edges that a device stamps late,
    and counters that begin anew, say nothing of clocks and framing. Infinite where less than half is known."""
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
    """How much later the switch's clock is than the host's, as far as another distance fits much better; else 0. Each
    distance with the framing that fits best then. Where several fit, as few windows may, the one at which most windows
    agree; it is believed too where nearly none agree otherwise."""
    start, end, came = counts.start[rows], counts.end[rows], counts.bytes[rows]
    width, holds = float(np.median(end - start)), holding(counts)
    parts = [per_wire(holds, extra)[rows] for extra in FRAMING]

    def errors_at(lags: Floats) -> Floats:
        wire = volume(port, start - lags[:, None], end - lags[:, None])
        found: Floats = np.min([errors(came, wire * part) for part in parts], axis=0)
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
    """Up to MOST distances of at most WIDTH at which the errors are least: first in steps of STEP, no two of one coarse
    step, then each in ever finer parts of it."""
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
    """The windows with what they should say, by the framing that fits best; edges may be off by two bins, or by how
    finely the clocks are known."""
    start, end = counts.start[rows], counts.end[rows]
    slack = max(2.0 * port.bin_ns, float(np.median(end - start)) / STEPS**2, counts.edge_ns)
    wire = volume(port, start, end)
    low = volume(port, start + slack, np.maximum(end - slack, start + slack))
    high = volume(port, start - slack, end + slack)
    extra = min(framings, key=lambda more: error(counts.bytes[rows], wire * per_wire(holds, more)[rows]))
    part = per_wire(holds, extra)[rows]
    found = ComparedWindows(
        rows, part * wire, (1 - WITHIN) * part * low - FRAME, (1 + WITHIN) * part * high + FRAME, extra
    )
    return found.take(np.isfinite(low) & np.isfinite(high) & np.isfinite(wire))


def lost_instead(port: Port, counts: SwitchWindows, holds: BinContent, seen: ComparedWindows) -> float:
    """The share of the bytes that the recorder would have lost evenly, had the switch counted plain frames, if that
    fits about as well as a tunnel's headers, or as a framing that leaves more than UNEXPLAINED; else 0. Of frames of
    one length the two look the same."""
    plain, left = compare(port, counts, holds, seen.rows, [PLAIN]), counts.bytes[seen.rows].sum() / seen.expected.sum()
    if seen.framing != TUNNELLED and left < 1 + UNEXPLAINED:
        return 0.0
    came = counts.bytes[plain.rows]
    more = float(came.sum()) / max(float(plain.expected.sum()), 1.0)
    noise = ALIKE / max(len(came), 1)
    as_well = error(came, more * plain.expected) <= AS_WELL * error(counts.bytes[seen.rows], seen.expected) + noise
    return 1 - 1 / more if more > 1 and as_well else 0.0


def at_an_end(rows: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Windows without a compared neighbour on one side, which may have what they lack."""
    apart = np.diff(rows) != 1
    return np.concatenate(([True], apart)) | np.concatenate((apart, [True]))


def evened_out(came: Floats, seen: ComparedWindows, good: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Windows that do not fit alone, but do together with one or two neighbours: the device stamped the edge between
    them late."""
    even = np.zeros(len(came), dtype=bool)
    for count in (2, 3):
        if len(came) < count:
            break
        total, low, high, bad = (
            np.lib.stride_tricks.sliding_window_view(values, count).sum(axis=1)
            for values in (came, seen.low, seen.high, ~good)
        )
        beside = seen.rows[count - 1 :] - seen.rows[: len(seen.rows) - count + 1] == count - 1
        fit = np.flatnonzero((total >= low) & (total <= high) & (bad > 0) & beside)
        even[(fit[:, None] + np.arange(count)).ravel()] = True
    return even


def outcome(
    came: Floats, seen: ComparedWindows, good: NDArray[np.bool_], holds: BinContent, filtered: bool
) -> tuple[str, str, str]:
    """State, who is wrong, and a sentence."""
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
    """The depths of a queue, against what left through its port: from then on the link carried FULL of it or more, in
    the time that line rate takes for all of it, as while a packet waits (Port.waits). Windows in which pause frames
    may have stopped the port are left out."""
    what, deep = "depth of the queue", queue.max_bytes > np.maximum(10.0 * FRAME, 4 * port.bin_bytes)
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
    good = left + FRAME >= FULL * depth
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
    """Whether pause frames may have stopped the port between times of its recording."""
    if port.signals is None or not port.signals.pauses.any():
        return np.zeros(len(start), dtype=bool)
    sums = stopped(port, port.signals)
    return np.asarray(before(sums, port.position(end)) > before(sums, port.position(start)))


def most_carried(port: Port, first: Floats, last: Floats, span: NDArray[np.int64]) -> Floats:
    """The most wire bytes in `span` bins that begin between two positions."""
    found = np.zeros(len(span))
    lows, highs = np.floor(first).astype(np.int64), np.ceil(last).astype(np.int64)
    for k, (low, high, bins) in enumerate(zip(lows.tolist(), highs.tolist(), span.tolist(), strict=True)):
        begin = np.arange(low, max(min(high, port.bins - bins), low) + 1)
        found[k] = (port.carried[np.minimum(begin + bins, port.bins)] - port.carried[begin]).max()
    return found


def grown(port: Port, queue: PortQueue, backlog: Floats, lag: float) -> Agreement:
    """The depths of a queue, against what the recorded senders sent less what the link can carry: no queue grows
    faster. backlog: at the end of each of the port's bins."""
    what, slack = "growth of the queue", 4.0 * port.bin_ns
    start, end = queue.start - lag, queue.end - lag
    rows = np.flatnonzero((queue.max_bytes > 10 * FRAME) & inside(port, start - slack, end + slack))
    if len(rows) < LEAST:
        return untested(what, queue.name, port, "fewer than five windows with a queue lie in the recorded time")
    first = np.floor(port.position(start[rows] - slack)).astype(np.int64)
    last = np.minimum(np.ceil(port.position(end[rows] + slack)).astype(np.int64), port.bins - 1)
    most = np.array([backlog[a : b + 1].max() for a, b in zip(first.tolist(), last.tolist(), strict=True)])
    good = queue.max_bytes[rows] <= 1.1 * most + 4 * port.bin_bytes + 10 * FRAME
    agreeing, n = int(good.sum()), len(rows)
    state = "agree" if good.mean() >= 0.95 else "disagree"
    said = (
        "no queue was deeper than what the recorded senders sent beyond line rate" if state == "agree" else
        f"{format_count(n - agreeing, 'window')} of {n:,} show more than the recorded senders sent beyond line rate"
    )  # fmt: skip
    return Agreement(what, queue.name, port.name, state, said, n, agreeing)
