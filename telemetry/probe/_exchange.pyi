"""Sends probes when they are due and takes what comes back, without the GIL. telemetry/probe/exchange.h says how."""

from typing_extensions import Buffer

TAKES: int
SENDS: int
STREAM: int
NTP: int

SENT: int
DUE: int
PARTLY: int
FAILED: int
LEFT: int
ANSWER: int
TROUBLE: int
READY: int

HEAD_BYTES: int
PATH_BYTES: int
NOTE_BYTES: int

def exchange(
    epoll: int, timer: int, paths: bytearray, owners: Buffer, due: Buffer, notes: bytearray, until_ns: int, /
) -> tuple[int, int]:
    """Exchange until a time of CLOCK_MONOTONIC or something is to be looked after. `paths` holds struct mb_path,
    `owners` int32, `due` struct mb_due, `notes` room for struct mb_note. Returns how many of `due` are done and how
    many notes were made. Raises OSError."""

def timer() -> int:
    """A timerfd for `exchange`, to be watched edge-triggered by its epoll. Raises OSError."""

def next_departure(fd: int, /) -> tuple[int, int, str] | tuple[int] | None:
    """The next of a non-blocking socket's error queue: the kernel's count of datagrams or bytes, Unix ns of departure
    and its stamp's kind (hw, sw or empty), or an errno that the network reported; None where it is empty."""
