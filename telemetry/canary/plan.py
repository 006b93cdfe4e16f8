"""Which canary bursts are sent, and the earliest time of each: their sizes and lengths, and the share of the link that
they may use in any second."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from ...errors import UsageError
from ...ethernet import on_wire
from ...units import NS_PER_S, format_bytes, format_duration, format_rate, format_share

HEADERS = {4: 14 + 20 + 8, 6: 14 + 40 + 8}  # Ethernet without FCS, IP, UDP
MARK_BYTES = 32  # of a payload: see canary.MARK
LARGEST_MTU, USUAL_MTU = 9216, 1500
MOST_SHARE = 0.25  # largest share of the link that can be requested
MOST_BURSTS = 50_000
MOST_TRIES = 2  # of each burst, if this host was held up while it sent
DEFAULT_TIMES_NS = (50_000, 100_000, 200_000, 500_000, 1_000_000, 2_000_000)  # at line rate: the default sizes


@dataclass(frozen=True)
class BurstShape:
    """A kind of burst: bytes of the link layer without FCS, and the time over which they are spread; 0: back to
    back."""

    size_bytes: int
    length_ns: int


@dataclass(frozen=True)
class Frames:
    """How a burst is split into packets. Bytes are those of the link layer without FCS."""

    full_bytes: int
    headers: int

    @classmethod
    def of(cls, mtu: int, version: int) -> Frames:
        """The frames of an interface, for IP of VERSION. The MTU of loopback is not that of any wire."""
        return cls((mtu if mtu <= LARGEST_MTU else USUAL_MTU) + 14, HEADERS[version])

    def split(self, size_bytes: int) -> list[int]:
        """The length of each packet of a burst, the last one shorter, but not shorter than its mark."""
        full, rest = divmod(size_bytes, self.full_bytes)
        return [self.full_bytes] * full + ([max(rest, self.headers + MARK_BYTES)] if rest or not full else [])

    def wire_bytes(self, size_bytes: int) -> int:
        """The bytes of a burst on the wire."""
        frames = self.split(size_bytes)
        return on_wire(sum(frames), len(frames))


@dataclass(frozen=True)
class CanaryPlan:
    """What is sent: COUNT bursts of each cell, with at most SHARE of the link's bytes in any second, and at least
    GAP_NS apart."""

    cells: tuple[BurstShape, ...]
    count: int
    link_bps: int
    share: float
    gap_ns: int
    frames: Frames

    @property
    def bursts(self) -> int:
        return self.count * len(self.cells)

    @property
    def wire_bytes(self) -> int:
        return self.count * sum(self.frames.wire_bytes(cell.size_bytes) for cell in self.cells)

    @property
    def budget(self) -> int:
        """Wire bytes in any second."""
        return int(self.share * self.link_bps / 8)

    def about_ns(self) -> int:
        """The approximate duration of the run."""
        spare = sum(
            wait_ns(self, self.frames.wire_bytes(cell.size_bytes)) + length_at_least(self, cell) for cell in self.cells
        )
        return int(1.25 * self.count * spare)


def line_ns(wire_bytes: int, link_bps: int) -> int:
    """How long a link takes for that many bytes."""
    return -(-wire_bytes * 8 * NS_PER_S // link_bps)


def length_at_least(plan: CanaryPlan, cell: BurstShape) -> int:
    """How long a burst lasts on the recorded link."""
    return max(cell.length_ns, line_ns(plan.frames.wire_bytes(cell.size_bytes), plan.link_bps))


def wait_ns(plan: CanaryPlan, wire_bytes: int) -> int:
    """The minimum time from the end of a burst to the next."""
    return max(plan.gap_ns, int(line_ns(wire_bytes, plan.link_bps) / plan.share))


def default_sizes(link_bps: int) -> tuple[int, ...]:
    """The bytes that the link carries in DEFAULT_TIMES_NS, to two digits."""
    return tuple(int(float(f"{link_bps * time / 8 / NS_PER_S:.2g}")) for time in DEFAULT_TIMES_NS)


def planned(
    sizes: Sequence[int], lengths: Sequence[int], count: int, link_bps: int, share: float, gap_ns: int, frames: Frames
) -> tuple[CanaryPlan, list[BurstShape]]:
    """Returns the plan, and the cells that are left out because a link of that speed cannot carry as much in that time.
    Raises UsageError for what must not be sent."""
    if not 0 < share <= MOST_SHARE:
        raise UsageError(
            f"--share {format_share(share)}: canary bursts take at most {format_share(MOST_SHARE)} of the link",
            "the default is 5 %",
        )
    if count < 1 or not sizes or not lengths:
        raise UsageError("nothing to send", "--count, --size and --length say what")
    cells = [BurstShape(size, length) for length in dict.fromkeys(lengths) for size in sorted(set(sizes))]
    kept = [
        cell
        for cell in cells
        if cell.length_ns == 0 or line_ns(frames.wire_bytes(cell.size_bytes), link_bps) <= cell.length_ns * 1.03
    ]
    plan = CanaryPlan(tuple(kept), count, link_bps, share, gap_ns, frames)
    if not kept:
        raise UsageError(
            f"no burst of {format_bytes(min(sizes))} fits into {format_duration(max(lengths))} at "
            f"{format_rate(link_bps)}",
            "a --length of 0 is back to back",
        )
    largest = max(kept, key=lambda cell: frames.wire_bytes(cell.size_bytes))
    if frames.wire_bytes(largest.size_bytes) > plan.budget:
        raise UsageError(
            f"a burst of {format_bytes(largest.size_bytes)} alone is more than {format_share(share)} of a second of "
            f"{format_rate(link_bps)} ({format_bytes(plan.budget)})",
            "name smaller bursts with --size",
        )
    if plan.bursts > MOST_BURSTS:
        raise UsageError(f"{plan.bursts:,} bursts are more than the {MOST_BURSTS:,} of a run", "lower --count")
    return plan, [cell for cell in cells if cell not in kept]


class Pace:
    """Decides when the next burst may begin, so that no second has more wire bytes than the plan's budget. Waits are
    random, so that the bursts do not coincide with another rhythm and can be recognized by their times."""

    def __init__(self, plan: CanaryPlan, rng: random.Random) -> None:
        self._plan, self._rng = plan, rng
        self._sent: deque[tuple[int, int]] = deque()  # end and wire bytes of each burst of the last second
        self._total = 0

    def sent(self, end_ns: int, wire_bytes: int) -> None:
        """A burst has ended."""
        self._sent.append((end_ns, wire_bytes))
        self._total += wire_bytes

    def next_ns(self, wire_bytes: int) -> int:
        """When a burst of that many bytes may begin. Times may be of any one clock; 0 if nothing was sent yet."""
        if not self._sent:
            return 0
        last_ns, last_bytes = self._sent[-1]
        start = last_ns + int(wait_ns(self._plan, last_bytes) * self._rng.uniform(1.0, 1.5))
        while self._sent and (self._sent[0][0] + NS_PER_S <= start or self._total + wire_bytes > self._plan.budget):
            end, count = self._sent.popleft()
            self._total -= count
            start = max(start, end + NS_PER_S)
        return start
