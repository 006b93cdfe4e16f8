"""Checks whether this machine's timers are fast enough for single frames to leave a port at line rate.

A token bucket sets a timer for each departure: every 12.3 µs at 1 Gb/s. Setting one costs a microsecond on hardware,
but more than ten in a nested virtual machine. There the port's own work uses up the processor, so that senders are
delayed and no queue ever builds. In that case trains of frames leave together, and a timer is set once for each train.
Five full frames take 61.5 µs, of which 16.25 fit in a millisecond: any 1 ms bin sees at most 17, which is 1.046 of line
rate.
"""

from __future__ import annotations

import ctypes
import os
import time

from ...ethernet import FULL_FRAME_WIRE_BYTES

LONGEST_TRAIN = 5

_FRAME_BITS = FULL_FRAME_WIRE_BYTES * 8
_BETWEEN_TRIES_S = 0.005
_TIMER_SHARE = 1 / 3  # largest share of the time between departures for setting the next timer


class _Timespec(ctypes.Structure):
    _fields_ = (("seconds", ctypes.c_long), ("nanoseconds", ctypes.c_long))


class _Itimerspec(ctypes.Structure):
    _fields_ = (("interval", _Timespec), ("value", _Timespec))


def timer_cost_s(repeats: int = 100, tries: int = 10) -> float:
    """Returns the seconds that it takes to set a timer that is the processor's next one. It is the maximum of several
    tries at different times: while others keep a virtual processor busy, it can take only a tenth of that, and
    unnecessary trains do no harm."""
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
    """Returns the number of full frames that must leave a port of this rate together, so that this machine keeps up: 1
    or LONGEST_TRAIN."""
    return 1 if timer_cost_s() < _TIMER_SHARE * _FRAME_BITS / link_bps else LONGEST_TRAIN
