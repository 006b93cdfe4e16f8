"""Writes the packets of a burst as pcapng, with comments on its begin and end, its senders, and its trigger."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, BinaryIO, NamedTuple

from .. import capture

if TYPE_CHECKING:
    from ..capture import CapturedInterface, Frame

HELD_NS = 50_000_000  # time after the end of a burst from which none of its packets is expected any more
_DIRECTIONS = {"mirror": 0, "in": 1, "out": 2}


class TriggerMark(NamedTuple):
    """The requests that may have triggered the burst: one burst alone does not show whether they did."""

    since_ns: int
    port: int | None
    text: str

    def begins_with(self, frame: Frame) -> bool:
        """Whether FRAME, in the other direction, is one of them."""
        return frame[1] >= self.since_ns and self.port in (None, frame[5] & 0xFFFF)


@dataclass(frozen=True)
class BurstMarks:
    """The comments on the packets of a burst in one port DIRECTION in [start_ns, end_ns): `begins` on the first one,
    `ends` on the last, an item of `senders` on the first of each sender, and `trigger` on the first packet in the other
    direction to the port (None: any) from that time on."""

    direction: str
    start_ns: int
    end_ns: int
    begins: str
    ends: str
    senders: Mapping[str, str]
    trigger: TriggerMark | None = None


@dataclass
class Written:
    """Counts of what was written."""

    packets: int = 0
    of_burst: int = 0
    first_ns: int | None = None
    last_ns: int | None = None
    commented: set[str] = field(default_factory=set)  # senders with a comment


@dataclass
class _Packet:
    frame: Frame
    comments: list[str]


def write_packets(
    stream: BinaryIO, frames: Iterable[Frame], marks: BurstMarks, header: list[str], interface: CapturedInterface
) -> Written:
    """Write FRAMES of one INTERFACE to STREAM as one section with the comments HEADER."""
    stream.write(capture.pcapng_section("mburst extract", header))
    stream.write(
        capture.pcapng_interface(
            interface["name"], interface["linktype"], interface["snaplen"], interface["link_bps"], interface["fcs_len"]
        )
    )
    written = Written()
    for packet in _ended(_commented(frames, marks, written), marks):
        _, ts_ns, length, direction, _, _, content = packet.frame
        number = _DIRECTIONS[direction]
        stream.write(capture.pcapng_packet(ts_ns, length, number, content, packet.comments))
        written.packets += 1
        written.first_ns = ts_ns if written.first_ns is None else min(written.first_ns, ts_ns)
        written.last_ns = ts_ns if written.last_ns is None else max(written.last_ns, ts_ns)
    return written


def is_of_burst(frame: Frame, marks: BurstMarks) -> bool:
    """Whether FRAME counts in the burst."""
    return frame[3] == marks.direction and marks.start_ns <= frame[1] < marks.end_ns


def _commented(frames: Iterable[Frame], marks: BurstMarks, written: Written) -> Iterator[_Packet]:
    trigger = marks.trigger
    for frame in frames:
        comments = []
        if is_of_burst(frame, marks):
            sender = frame[4]
            if not written.of_burst:
                comments.append(marks.begins)
            if sender in marks.senders and sender not in written.commented:
                written.commented.add(sender)
                comments.append(marks.senders[sender])
            written.of_burst += 1
        elif trigger and frame[3] != marks.direction and trigger.begins_with(frame):
            comments.append(trigger.text)
            trigger = None
        yield _Packet(frame, comments)


def _ended(packets: Iterable[_Packet], marks: BurstMarks) -> Iterator[_Packet]:
    """Yields the packets with the mark on the last packet of the burst. That packet is held back until it is known to
    be the last."""
    held: list[_Packet] = []
    over = False
    for packet in packets:
        if not over and is_of_burst(packet.frame, marks):
            yield from held
            held = [packet]
        elif held:
            held.append(packet)
        else:
            yield packet
        if held and packet.frame[1] >= marks.end_ns + HELD_NS:
            held[0].comments.append(marks.ends)
            yield from held
            held, over = [], True
    if held:
        held[0].comments.append(marks.ends)
    yield from held
