"""The clocks of this host, read together: how accurate a stamp is, and when somebody set the clock.

Sources: clock_gettime(2), adjtimex(2), and for the clock of an interface Documentation/driver-api/ptp.rst of Linux.
"""

from __future__ import annotations

import ctypes
import os
import time
from dataclasses import dataclass
from types import TracebackType

CLOCK_TAI = 11
TIME_ERROR = 5
STA_UNSYNC = 0x0040


class _Timex(ctypes.Structure):
    """struct timex, up to the last field that is read; the kernel's has 208 bytes."""

    _fields_ = [
        ("modes", ctypes.c_uint),
        ("offset", ctypes.c_long),
        ("freq", ctypes.c_long),
        ("maxerror", ctypes.c_long),
        ("esterror", ctypes.c_long),
        ("status", ctypes.c_int),
        ("rest", ctypes.c_char * 256),
    ]


@dataclass(frozen=True)
class Reading:
    """The clocks at one moment, in the form of sql/schema/clock.sql. Nanoseconds."""

    ts_ns: int
    monotonic_raw_ns: int
    tai_offset_ns: int
    phc_offset_ns: int | None
    uncertainty_ns: int
    status: int
    max_error_ns: int
    synchronized: bool


def jump_ns(before: Reading, now: Reading) -> int:
    """By how much system time was moved between two readings, against the clock that is never set."""
    return (now.ts_ns - before.ts_ns) - (now.monotonic_raw_ns - before.monotonic_raw_ns)


def phc_clock(descriptor: int) -> int:
    """The clock id of an open PTP clock (FD_TO_CLOCKID of the kernel)."""
    return (~descriptor << 3) | 3


class Clocks:
    """Reads the clocks of this host and, if `phc_index` is a clock that can be opened, that of an interface."""

    def __init__(self, phc_index: int = -1) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._phc = -1
        if phc_index >= 0:
            try:
                self._phc = os.open(f"/dev/ptp{phc_index}", os.O_RDONLY | os.O_CLOEXEC)
            except OSError:
                self._phc = -1  # its column stays NULL

    def __enter__(self) -> Clocks:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        if self._phc >= 0:
            os.close(self._phc)
        self._phc = -1

    def read(self) -> Reading:
        timex = _Timex()
        state = self._libc.adjtimex(ctypes.byref(timex))
        phc = phc_clock(self._phc) if self._phc >= 0 else None
        before = time.clock_gettime_ns(time.CLOCK_REALTIME)
        raw = time.clock_gettime_ns(time.CLOCK_MONOTONIC_RAW)
        tai = time.clock_gettime_ns(CLOCK_TAI)
        own = time.clock_gettime_ns(phc) if phc is not None else None
        after = time.clock_gettime_ns(time.CLOCK_REALTIME)
        middle = before + (after - before) // 2
        return Reading(
            ts_ns=middle,
            monotonic_raw_ns=raw,
            # TAI is system time plus whole seconds; any further difference is the time between the two readings.
            tai_offset_ns=round((tai - middle) / 1e9) * 1_000_000_000,
            phc_offset_ns=None if own is None else own - middle,
            uncertainty_ns=after - before,
            status=timex.status,
            max_error_ns=timex.maxerror * 1000,
            synchronized=state != TIME_ERROR and not timex.status & STA_UNSYNC,
        )
