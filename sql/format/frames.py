"""Frames: the form in which a hot log keeps its batches, so that a reader can verify every byte.

A log is a sequence of frames without gaps. A frame is a header of 32 bytes, its payload, and zeros up to a multiple of
8:

    bytes 0-3    magic "mbF2"
    bytes 4-7    number of the frame in its log, from 0
    bytes 8-15   length of the payload
    bytes 16-23  XXH3-64 of the payload
    bytes 24-31  XXH3-64 of bytes 0-23, seeded by the name of the segment

All numbers are little-endian. The payload of frame 0 is JSON (a description of the log), that of any other frame a
complete Arrow IPC stream: a frame can be read without the others. A log whose last frame is shorter than its header
states is *torn*: its writer was killed in the middle of it, or is still writing it. Any other mismatch is *damage*.

A power cut may leave a log with its length but without its last bytes, which the file system then returns as zeros,
from the end of a frame or of a block on. If the machine was restarted since, that is a torn end, too
(`scan_after_cut`).
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
_SECTOR = 512  # bytes: the block sizes of all file systems are multiples of it
_END_MARK = 8  # bytes at the end of a payload that are not all zeros: the end of a stream (ffffffff 00000000)


@dataclass(frozen=True)
class Damage:
    """A range of a log that is not what was written: bytes [start, end) of the file."""

    start: int
    end: int
    reason: str


@dataclass
class LogScan:
    """The content of a log: the payloads of its sound frames by number, and where to continue reading."""

    payloads: dict[int, memoryview] = field(default_factory=dict)
    places: dict[int, tuple[int, int]] = field(default_factory=dict)  # of the same frames: bytes [start, end)
    damage: list[Damage] = field(default_factory=list)
    end: int = 0
    next_number: int = 0
    torn_bytes: int = 0


def seed_of(segment: str) -> int:
    """The seed of the header checksums of a segment, so that frames of other logs do not pass for its own."""
    return xxhash.xxh3_64_intdigest(segment.encode())


def header(number: int, payload: bytes | memoryview, seed: int) -> bytes:
    """The header of a frame."""
    fields = _FIELDS.pack(MAGIC, number, len(payload), xxhash.xxh3_64_intdigest(payload))
    return fields + _CHECK.pack(xxhash.xxh3_64_intdigest(fields, seed))


def padding(length: int) -> bytes:
    """The zeros after a payload of LENGTH bytes."""
    return bytes(-length % ALIGNMENT)


def scan(data: bytes, seed: int, number: int = 0, base: int = 0) -> LogScan:
    """Read DATA, the bytes of a log from offset BASE on, where frame NUMBER begins. Offsets in the result are those of
    the file; payloads are slices of DATA, not copies."""
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
    """Note that frame NUMBER is as it was written, but holds nothing that belongs into the log."""
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
    """Where the damage begins that extends to the end of the scan."""
    start = found.end
    for damage in reversed(found.damage):
        if damage.end != start or damage.start == start:
            break
        start = damage.start
    return start


def _is_unwritten(data: bytes, at: int, base: int, seed: int) -> bool:
    """Whether there are only zeros from AT on, or only the beginning of one frame, and zeros from the next sector
    on."""
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
    """Returns the size of the frame at AT, including its padding; None if there is no header of number LEAST or
    later."""
    if len(data) - at < HEADER:
        return HEADER  # more than there is: torn
    magic, number, length, _ = _FIELDS.unpack_from(data, at)
    (check,) = _CHECK.unpack_from(data, at + _FIELDS.size)
    if magic != MAGIC or number < least or check != xxhash.xxh3_64_intdigest(data[at : at + _FIELDS.size], seed):
        return None
    return int(HEADER + length + -length % ALIGNMENT)


def _take(data: bytes, at: int, size: int, found: LogScan, base: int) -> None:
    """Take the complete frame at AT, or note that its payload is damaged."""
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
    """Returns the position of the next header after damage at AT, or the end."""
    end = data.find(MAGIC, at + 1)
    while end >= 0 and (len(data) - end < HEADER or _frame_size(data, end, seed, found.next_number) is None):
        end = data.find(MAGIC, end + 1)
    end = len(data) if end < 0 else end
    blank = data.count(0, at, end) == end - at
    what = "were never written" if blank else "are not a batch of this log"
    found.damage.append(Damage(base + at, base + end, f"{end - at:,} bytes {what}"))
    return end
