"""The switch's sampler: reads the byte totals of a port and the depth of its queue each millisecond, in the namespace
in which it is started, and writes each reading to standard output: `python -m mburst.lab.rack.sample PORT SECONDS`.

A switch samples in hardware, so if allowed this runs before all other processes. Readings are due at whole
milliseconds, but may be late: each has the time at which it was taken, and after a stall none is made up for. A reading
without an exact time is repeated. The sampler ends if nobody reads its output, after SECONDS, or by SIGTERM. On SIGTERM
it takes one more reading, so that no byte that the port had counted by then is missing.
"""

from __future__ import annotations

import contextlib
import gc
import os
import signal
import struct
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeVar

from ...gnmi_target.netlink import PortReader
from ...gnmi_target.qdisc import QueueReader
from ...process.stopping import stopping
from . import role

PERIOD_NS = 1_000_000
READING = struct.Struct("=qQQqQ")  # when the port was read, its octets in and out; when its queue was, bytes in it
DOUBT_NS, TRIES = 50_000, 5  # a reading normally takes some 5 µs
PRIORITY = 3  # the senders have 2
FCS_BYTES = 4  # SAI's octets of a port include it; the kernel's do not


@dataclass
class Sampled:
    """The punctuality of the readings. `late` counts readings more than 5 % of the period after their time, `missed`
    periods without one."""

    readings: int = 0
    late: int = 0
    missed: int = 0
    longest_ns: int = 0
    last_ns: int = 0

    def add(self, at: list[int]) -> None:
        """Add readings, in the order of time."""
        for before, now in pairwise([self.last_ns, *at] if self.last_ns else at):
            self.late += now - before > 1.05 * PERIOD_NS
            self.missed += max(0, round((now - before) / PERIOD_NS) - 1)
            self.longest_ns = max(self.longest_ns, now - before)
        self.readings, self.last_ns = self.readings + len(at), at[-1]


Value = TypeVar("Value")


def timed(read: Callable[[], Value]) -> tuple[int, Value]:
    """Returns the time of a reading, and its value. In a virtual machine, milliseconds may pass between the two."""
    for _ in range(TRIES):
        before_ns, value, after_ns = time.time_ns(), read(), time.time_ns()
        if after_ns - before_ns <= DOUBT_NS:
            break
    return after_ns, value


def reading(totals: PortReader, queue: QueueReader) -> bytes:
    """Returns one reading in the format READING."""
    carried_ns, carried = timed(totals.read)
    waiting_ns, (waiting, _) = timed(queue.read)
    octets_in = carried.in_octets + FCS_BYTES * carried.in_pkts
    octets_out = carried.out_octets + FCS_BYTES * carried.out_pkts
    return READING.pack(carried_ns, octets_in, octets_out, waiting_ns, waiting)


def main() -> None:
    port, limit_s = sys.argv[1], float(sys.argv[2])
    signal.setitimer(signal.ITIMER_REAL, limit_s)
    totals, queue = PortReader(port), QueueReader(port)
    gc.disable()
    role.go_real_time(PRIORITY)
    with stopping(lambda: None) as ended_by, contextlib.suppress(BrokenPipeError):
        is_last = False
        while not is_last:
            is_last = bool(ended_by)  # checked first, so that the last reading is of a later time
            time.sleep((PERIOD_NS - time.time_ns() % PERIOD_NS) / 1e9)
            os.write(1, reading(totals, queue))


if __name__ == "__main__":
    main()
