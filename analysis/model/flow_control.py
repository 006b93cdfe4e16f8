"""Sums of a port direction for the frames that ask senders to slow down (RoCEv2 congestion notifications) or to stop
(pause frames, 802.3x and PFC). A frame that travels in one direction is about the traffic of the other one."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..read import bins as read_bins

if TYPE_CHECKING:
    import duckdb

CLASSES = 8  # priority classes of IEEE 802.1Q
COUNTS_PAUSES = "`mburst record --backend afpacket` counts them"
SUMS = ("cnp_packets", "pause_frames", "resume_frames", "pause_quanta")


@dataclass(frozen=True)
class FlowControl:
    """Sums of flow-control frames. None: no recording counted these frames. pause_classes: the classes that were asked
    to stop, sorted; 802.3x stops all.

    asked_ns: sum of the times that the frames asked for. This is an upper bound for the time that the link stopped,
    because a frame replaces the rest of the one before. It is None also if the speed of the link is unknown. uncounted:
    recordings that did not count all of these frames, because an older mburst made them or because the kernel counted
    (--backend ebpf).
    """

    cnp_packets: int | None = None
    pause_frames: int | None = None
    resume_frames: int | None = None
    pause_quanta: int | None = None
    pause_classes: tuple[int, ...] | None = None
    asked_ns: int | None = None
    uncounted: int = 0

    @property
    def seen(self) -> bool:
        """Whether there was any such frame."""
        return bool(self.cnp_packets or self.pause_frames or self.resume_frames)

    @property
    def unknown(self) -> bool:
        """Whether there may have been pause frames that no recording counted."""
        return self.uncounted > 0 and not self.seen


def classes_of(bits: int) -> tuple[int, ...]:
    """Returns the numbers of the classes that have their bit set."""
    return tuple(number for number in range(CLASSES) if bits >> number & 1)


def class_words(classes: tuple[int, ...]) -> str:
    """ "class 3", "classes 3 and 4", "all classes" """
    if len(classes) == CLASSES:
        return "all classes"
    *first, last = map(str, classes)
    return f"classes {', '.join(first)} and {last}" if first else f"class {last}"


def uncounted_pauses(con: duckdb.DuckDBPyConnection, of_switches: Container[tuple[str, ...]] = ()) -> list[str]:
    """Returns a sentence for each direction in which pause frames were not counted, of the recordings that
    detect_bursts() read in CON. OF_SWITCHES: directions that no host recorded."""
    lanes = [tuple(lane) for lane in read_bins.lanes_without_pauses(con)]
    where = {lane: " on the host behind it" if lane in of_switches else "" for lane in lanes}
    return [f"{' '.join(lane)}: pause frames were not counted ({COUNTS_PAUSES}{where[lane]})" for lane in lanes]


def of_recordings(
    con: duckdb.DuckDBPyConnection, links: Mapping[str, int | None], since_ns: int, until_ns: int
) -> dict[str, dict[str, Any]]:
    """Returns the sums of each recording in LINKS (recording_id: bits per second, None if unknown) that has bins in
    that time, by recording_id."""
    return {row["recording_id"]: row for row in read_bins.flow_controls(con, links, since_ns, until_ns)}


def summed(rows: Iterable[Mapping[str, Any]]) -> FlowControl:
    """Returns the sums of several recordings of one port direction."""
    all_rows = list(rows)
    uncounted = sum(any(row[name] is None for name in SUMS) for row in all_rows)
    sums: dict[str, Any] = {name: _sum(row[name] for row in all_rows) for name in SUMS}
    paused = [row for row in all_rows if row["pause_quanta"] is not None]
    if not paused:
        return FlowControl(**sums, uncounted=uncounted)
    bits, asked = 0, 0.0
    for row in paused:
        bits |= row["pause_classes"]
        asked += row["asked_ns"] or 0.0
    timed = all(row["asked_ns"] is not None or not row["pause_quanta"] for row in paused)
    asked_ns = round(asked) if timed else None
    return FlowControl(**sums, pause_classes=classes_of(bits), asked_ns=asked_ns, uncounted=uncounted)


def _sum(counts: Iterable[int | None]) -> int | None:
    """Returns the sum of the known counts; None if there are none."""
    known = [int(count) for count in counts if count is not None]
    return sum(known) if known else None
