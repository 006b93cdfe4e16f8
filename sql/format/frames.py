"""Frames: how a hot log keeps its batches, so that a reader knows each byte to be what was written.

A log is a sequence of frames without gaps. A frame is a header of 32 bytes, its payload, and zeros up to a multiple of
8:

    bytes 0-3    magic "mbF2"
    bytes 4-7    number of the frame in its log, from 0
    bytes 8-15   length of the payload
    bytes 16-23  XXH3-64 of the payload
    bytes 24-31  XXH3-64 of bytes 0-23, seeded by the name of the segment

All numbers are little-endian. The payload of frame 0 is JSON (what the log is), that of any other a whole Arrow IPC
stream: a frame can be read without the others. A log whose last frame is shorter than its header says is *torn*: its
writer was killed in the middle of it, or is just writing it. Whatever else does not fit is *damage*.

A power cut may leave a log's length and not its last bytes, which the file system then gives as zeros, from the end of
a frame or of a block on. Where the machine was started anew since, that is a torn end, too (`scan_after_cut`).
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field

import xxhash

MAGIC = b"mbF2"
_FIELDS = struct.Struct("<4sIQQ")
_CHECK = struct.Struct("<Q")
HEADER = _FIELDS.size + _CHECK.size
ALIGNMENT = 8
_SECTOR = 512  # bytes: blocks of all file systems are multiples
_END_MARK = 8  # bytes of a payload's end that are not all zeros: a stream's end (ffffffff 00000000)


@dataclass(frozen=True)
class Damage:
    """A stretch of a log that is not what was written: bytes [start, end) of the file."""

    start: int
    end: int
    reason: str


@dataclass
class LogScan:
    """What stands in a log: the payloads of its sound frames by number, and where reading on would begin."""

    payloads: dict[int, memoryview] = field(default_factory=dict)
    places: dict[int, tuple[int, int]] = field(default_factory=dict)  # of the same frames: bytes [start, end)
    damage: list[Damage] = field(default_factory=list)
    end: int = 0
    next_number: int = 0
    torn_bytes: int = 0


def seed_of(segment: str) -> int:
    """What seeds the header checks of a segment: frames of other logs do not pass for its own."""
    return xxhash.xxh3_64_intdigest(segment.encode())


def header(number: int, payload: bytes | memoryview, seed: int) -> bytes:
    """The header of a frame."""
    fields = _FIELDS.pack(MAGIC, number, len(payload), xxhash.xxh3_64_intdigest(payload))
    return fields + _CHECK.pack(xxhash.xxh3_64_intdigest(fields, seed))


def padding(length: int) -> bytes:
    """The zeros behind a payload of LENGTH bytes."""
    return bytes(-length % ALIGNMENT)


def scan(data: bytes, seed: int, number: int = 0, base: int = 0) -> LogScan:
    """Read DATA, the bytes of a log from offset BASE on, where frame NUMBER begins. Offsets in the answer are the
    file's; payloads are slices of DATA, not copies."""
    found = LogScan(end=base, next_number=number)
    at = 0
    while at < len(data):
        size = _frame_size(data, at, seed, found.next_number)
        if size is None:
            at = _skip_damage(data, at, seed, found, base)
        elif at + size > len(data):
            found.torn_bytes = len(data) - at
            break
        else:
            _take(data, at, size, found, base)
            at += size
    found.end = base + at
    return found


def refuse(found: LogScan, number: int, reason: str) -> None:
    """Frame NUMBER is as it was written, and yet holds nothing that belongs into the log."""
    del found.payloads[number]
    found.damage.append(Damage(*found.places[number], f"batch {number}: {reason}"))


def scan_after_cut(data: bytes, seed: int, number: int = 0, base: int = 0) -> LogScan:
    """The same for a log whose writer died with its machine: an end that was never written is torn, not damage."""
    found = scan(data, seed, number, base)
    at = _start_of_last_damage(found) - base
    if found.damage and _is_unwritten(data, at, base, seed):
        found = scan(data[:at], seed, number, base)
        found.torn_bytes += len(data) - at
    return found


def _start_of_last_damage(found: LogScan) -> int:
    """Where the damage begins that goes on to where the scan ended."""
    start = found.end
    for damage in reversed(found.damage):
        if damage.end != start or damage.start == start:
            break
        start = damage.start
    return start


def _is_unwritten(data: bytes, at: int, base: int, seed: int) -> bool:
    """Whether there is nothing from AT on but zeros, or but the beginning of one frame and zeros from a sector on."""
    written = len(data.rstrip(b"\0"))
    if written <= at:
        return True
    blank = written + -(base + written) % _SECTOR
    if blank >= len(data) or data[at : at + len(MAGIC)] != MAGIC:
        return False
    if blank < at + HEADER:  # the header itself is cut
        return True
    if _frame_size(data, at, seed, 0) is None:
        return False
    length = _FIELDS.unpack_from(data, at)[2]
    return bool(written <= at + HEADER + length - _END_MARK)


def _frame_size(data: bytes, at: int, seed: int, least: int) -> int | None:
    """The bytes of the frame at AT, its padding included; None where no header of number LEAST or later stands."""
    if len(data) - at < HEADER:
        return HEADER  # more than is there: torn
    magic, number, length, _ = _FIELDS.unpack_from(data, at)
    (check,) = _CHECK.unpack_from(data, at + _FIELDS.size)
    if magic != MAGIC or number < least or check != xxhash.xxh3_64_intdigest(data[at : at + _FIELDS.size], seed):
        return None
    return int(HEADER + length + -length % ALIGNMENT)


def _take(data: bytes, at: int, size: int, found: LogScan, base: int) -> None:
    """Take the whole frame at AT, or note that its payload is damaged."""
    _, number, length, check = _FIELDS.unpack_from(data, at)
    payload = memoryview(data)[at + HEADER : at + HEADER + length]
    explained = bool(found.damage) and found.damage[-1].end == base + at
    if number > found.next_number and not explained:
        found.damage.append(Damage(base + at, base + at, f"batches {found.next_number} to {number - 1} are missing"))
    if xxhash.xxh3_64_intdigest(payload) == check:
        found.payloads[number], found.places[number] = payload, (base + at, base + at + size)
    else:
        found.damage.append(Damage(base + at, base + at + size, f"batch {number} does not match its checksum"))
    found.next_number = number + 1


def _skip_damage(data: bytes, at: int, seed: int, found: LogScan, base: int) -> int:
    """Where the next header stands behind damage at AT, or the end."""
    end = data.find(MAGIC, at + 1)
    while end >= 0 and (len(data) - end < HEADER or _frame_size(data, end, seed, found.next_number) is None):
        end = data.find(MAGIC, end + 1)
    end = len(data) if end < 0 else end
    blank = data.count(0, at, end) == end - at
    what = "were never written" if blank else "are not a batch of this log"
    found.damage.append(Damage(base + at, base + end, f"{end - at:,} bytes {what}"))
    return end
