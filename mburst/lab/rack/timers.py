"""Can this machine's timers let one frame at a time out of a port at line rate?

A token bucket sets a timer for each departure: every 12.3 µs at 1 Gb/s. To set one costs a microsecond on hardware, but
more than ten in a virtual machine within another, and then the port's own work eats the processor: senders are held up
and no queue ever builds. There, trains of frames leave together, and the timer is set once a train. Five full
frames take 61.5 µs, of which 16.25 fit in a millisecond: however a 1 ms bin falls, it sees at most 17, which is 1.046
of line rate.
"""

from __future__ import annotations

import ctypes
import os
import time

LONGEST_TRAIN = 5

_FRAME_BITS = 1538 * 8
_BETWEEN_TRIES_S = 0.005
_TIMER_SHARE = 1 / 3  # of the time between departures, at most, for setting the timer of the next


class _Timespec(ctypes.Structure):
    _fields_ = (("seconds", ctypes.c_long), ("nanoseconds", ctypes.c_long))


class _Itimerspec(ctypes.Structure):
    _fields_ = (("interval", _Timespec), ("value", _Timespec))


def timer_cost_s(repeats: int = 100, tries: int = 10) -> float:
    """Seconds that it takes to set a timer that is the processor's next one; the most of some tries at different times:
    while others keep a virtual processor busy, it can take a tenth, and trains that are not needed do no harm."""
    libc = ctypes.CDLL(None, use_errno=True)
    descriptor = libc.timerfd_create(time.CLOCK_MONOTONIC, os.O_CLOEXEC)
    if descriptor < 0:
        raise OSError(ctypes.get_errno(), "timerfd_create")
    specs = [_Itimerspec(_Timespec(0, 0), _Timespec(0, 100_000 + offset)) for offset in range(7)]
    try:
        found = []
        for _ in range(tries):
            time.sleep(_BETWEEN_TRIES_S)
            begin = time.perf_counter()
            for turn in range(repeats):
                libc.timerfd_settime(descriptor, 0, ctypes.byref(specs[turn % 7]), None)
            found.append((time.perf_counter() - begin) / repeats)
        return max(found)
    finally:
        os.close(descriptor)


def train_for(link_bps: int) -> int:
    """How many full frames must leave a port of this rate together, that this machine keeps up: 1 or LONGEST_TRAIN."""
    return 1 if timer_cost_s() < _TIMER_SHARE * _FRAME_BITS / link_bps else LONGEST_TRAIN
