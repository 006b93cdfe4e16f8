"""Sends probes when they are due and receives the answers, without the GIL. Described in telemetry/probe/exchange.h."""

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
    """Exchange until a time of CLOCK_MONOTONIC or until a note needs attention. `paths` holds struct mb_path, `owners`
    int32, `due` struct mb_due, `notes` room for struct mb_note. Returns how many of `due` are done and how many notes
    were made. Raises OSError."""

def timer() -> int:
    """Returns a timerfd for `exchange`, which its epoll has to watch edge-triggered. Raises OSError."""

def next_departure(fd: int, /) -> tuple[int, int, str] | tuple[int] | None:
    """Returns the next entry of the error queue of a non-blocking socket: the kernel's count of datagrams or bytes,
    Unix ns of departure and the kind of its stamp (hw, sw or empty), or an errno that the network reported; None if the
    queue is empty."""
