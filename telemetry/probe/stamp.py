"""Test packets of the Simple Two-way Active Measurement Protocol, unauthenticated.

Sources: RFC 8762 sections 4.2.1 and 4.3.1 (packets of sender and reflector, 44 bytes each), 4.6 (TWAMP Light), RFC 8972
sections 3 (session identifier), 4 (TLVs), 4.1 (extra padding) and 4.7 (follow-up telemetry), RFC 4656 section 4.1.2
(error estimate), RFC 8186 (the other format of timestamps), RFC 5905 section 6 (NTP timestamps).

    sender:    sequence 4 | timestamp 8 | error estimate 2 | session 2 | zero 28 | TLVs
    reflector: sequence 4 | timestamp 8 | error estimate 2 | session 2 | receive timestamp 8
               | sender's sequence 4, timestamp 8, error estimate 2 | zero 2 | sender's TTL 1 | zero 3 | TLVs

A packet of a TWAMP Light sender (RFC 5357 appendix I) has the first 14 bytes and any padding; the packet of its
reflector has the same fields in the same places up to the TTL. Times here are Unix nanoseconds.
"""

from __future__ import annotations

import struct
from functools import lru_cache
from typing import NamedTuple

from ...units import NS_PER_S

DEFAULT_PORT = 8620  # RFC 8762 specifies 862, on which only root may listen
BASE_BYTES = 44
LEAST_SENDER_BYTES = 14  # of TWAMP Light
FOLLOW_UP_AT = BASE_BYTES + 4  # the value of a follow-up TLV that comes first
MOST_BYTES = 65_000

NTP_UNIX_S = 2_208_988_800  # from 1900 to 1970
SYNCHRONIZED, PTP_FORMAT = 0x8000, 0x4000  # bits S and Z of an error estimate

SENDER_HEAD = struct.Struct("!IQHH")
NUMBER_AND_TIME = struct.Struct("!IQ")  # at the beginning of any packet
REFLECTOR = struct.Struct("!IQHHQ4s8s2s2xB3x")
_REPLY = struct.Struct("!IQHHQIQH")  # in the reply of every reflector: that of TWAMP Light may end before the TTL
LEAST_REPLY_BYTES = _REPLY.size
_TLV = struct.Struct("!BBH")
_FOLLOW_UP = struct.Struct("!IQB3x")
_EXTRA_PADDING, _FOLLOW_UP_TYPE = 1, 7
_UNRECOGNIZED = 0x80  # flag of a TLV: the sender sets it, and a reflector that knows the TLV clears it
_SOFTWARE_LOCAL = 2  # method of a timestamp: RFC 8972 section 4.3
_WHOLE, _HALF = 1 << 32, 1 << 31
LARGEST_NS = 2**63 - 1
ROUNDED_NTP = 1 << 12  # of 2^-32 s: rounding error of a reflector that keeps stamps as floating point, 1 µs
NEAR_S = 3600  # a stamp within this of the present counts as one of now


def to_ntp(ns: int) -> int:
    """Returns a 64-bit NTP timestamp, rounded up to its unit of 233 ps so that from_ntp returns the same nanosecond."""
    seconds, rest = divmod(ns, NS_PER_S)
    return ((seconds + NTP_UNIX_S & 0xFFFFFFFF) << 32) + -(-(rest << 32) // NS_PER_S)


def from_ntp(stamp: int, near_ns: int) -> int:
    """Unix nanoseconds of an NTP timestamp, in the era that is closest to `near_ns` (the first one ends in 2036)."""
    seconds = _nearest((stamp >> 32) - NTP_UNIX_S, near_ns // NS_PER_S)
    return seconds * NS_PER_S + ((stamp & 0xFFFFFFFF) * NS_PER_S >> 32)


def from_ptp(stamp: int, near_ns: int) -> int:
    """Unix nanoseconds of a truncated PTPv2 timestamp (RFC 8186): 32 bits of seconds, 32 of nanoseconds."""
    return _nearest(stamp >> 32, near_ns // NS_PER_S) * NS_PER_S + (stamp & 0xFFFFFFFF)


def _nearest(seconds: int, near: int) -> int:
    """Of the times with the same lower 32 bits of seconds, the one closest to another time."""
    return near + (seconds - near + _HALF) % _WHOLE - _HALF


def error_estimate(max_error_ns: int, synchronized: bool) -> int:
    """The 16 bits S, Z = 0, scale and multiplier: the least multiplier × 2^scale × 2^-32 s not below the error."""
    units = max(1, -(-(max_error_ns << 32) // NS_PER_S))
    scale = max(0, units.bit_length() - 8)
    multiplier = -(-units >> scale)
    if multiplier > 255:
        scale, multiplier = scale + 1, -(-units >> scale + 1)
    if scale > 63:
        scale, multiplier = 63, 255
    return (SYNCHRONIZED if synchronized else 0) | scale << 8 | multiplier


def error_ns(estimate: int) -> int | None:
    """The error that an estimate states, in ns; None if the clock is not synchronized or the estimate is invalid."""
    multiplier, scale = estimate & 0xFF, estimate >> 8 & 0x3F
    if not estimate & SYNCHRONIZED or not multiplier:
        return None
    return min(-(-((multiplier << scale) * NS_PER_S) >> 32), LARGEST_NS)


def request(size: int, session: int, error: int) -> bytearray:
    """Returns a sender's packet of `size` bytes, to be stamped by `stamp_request` before each sending.

    It asks for follow-up telemetry if there is room (64 bytes, or 68 and more); the rest is extra padding. Raises
    ValueError for a size that the format does not allow: below 44, or 45 to 47.
    """
    if size < BASE_BYTES or BASE_BYTES < size < BASE_BYTES + _TLV.size or size > MOST_BYTES:
        raise ValueError(f"a STAMP packet has 44, or 48 to {MOST_BYTES:,} bytes, not {size:,}")
    packet = bytearray(size)
    SENDER_HEAD.pack_into(packet, 0, 0, 0, error, session)
    at = BASE_BYTES
    with_follow_up = at + _TLV.size + _FOLLOW_UP.size
    if size == with_follow_up or size >= with_follow_up + _TLV.size:
        _TLV.pack_into(packet, at, _UNRECOGNIZED, _FOLLOW_UP_TYPE, _FOLLOW_UP.size)
        at = with_follow_up
    if size > at:
        _TLV.pack_into(packet, at, _UNRECOGNIZED, _EXTRA_PADDING, size - at - _TLV.size)
    return packet


def stamp_request(packet: bytearray, sequence: int, ns: int) -> int:
    """Put number and time into a sender's packet. Returns the timestamp as written, by which its answer is
    recognized."""
    stamp = to_ntp(ns)
    NUMBER_AND_TIME.pack_into(packet, 0, sequence & 0xFFFFFFFF, stamp)
    return stamp


class Reply(NamedTuple):
    """A reflector's packet. Stamps are Unix ns; `sender_stamp` is the sender's timestamp as the sender wrote it."""

    sequence: int
    tx_ns: int
    error: int
    session: int
    rx_ns: int
    sender_sequence: int
    sender_stamp: int
    follow_up: tuple[int, int] | None  # the reflector's number of an earlier reply, and when that reply really left


def parse_reply(data: bytes | memoryview, near_ns: int) -> Reply | None:
    """Parse a reply of STAMP or TWAMP Light. Returns None if it is too short. `near_ns` determines the era of its
    timestamps."""
    if len(data) < LEAST_REPLY_BYTES:
        return None
    sequence, tx, error, session, rx, sender_sequence, sender_stamp, _ = _REPLY.unpack_from(data)
    decode = from_ptp if error & PTP_FORMAT else from_ntp
    follow_up = None
    if len(data) >= FOLLOW_UP_AT + _FOLLOW_UP.size:
        flags, kind, length = _TLV.unpack_from(data, BASE_BYTES)
        if kind == _FOLLOW_UP_TYPE and length == _FOLLOW_UP.size and not flags & _UNRECOGNIZED:
            number, left, _ = _FOLLOW_UP.unpack_from(data, FOLLOW_UP_AT)
            follow_up = (number, decode(left, near_ns)) if left else None
    return Reply(
        sequence, decode(tx, near_ns), error, session, decode(rx, near_ns), sender_sequence, sender_stamp, follow_up
    )


def same_stamp(sent: int, returned: int) -> bool:
    """Whether a timestamp came back as it was sent, except for the rounding of a reflector that keeps it as a float (53
    bits hold the seconds since 1900 and 21 bits of their fraction, as scapy's do)."""
    return abs(sent - returned) <= ROUNDED_NTP


def looks_like_reply(data: bytes | memoryview, now_ns: int) -> bool:
    """Whether a datagram has a stamp of now in the place where a reply has its receive timestamp, or the timestamp of
    the request that it answers. In a sender's packet both places are zero, or padding, which looks like such a stamp
    once in 150,000 times."""
    for at in (16, 28):
        if len(data) >= at + 8 and any(data[at : at + 8]):
            seconds = int.from_bytes(data[at : at + 4], "big")
            for epoch in (NTP_UNIX_S, 0):  # that of NTP, and that of truncated PTP stamps
                if abs((seconds - now_ns // NS_PER_S - epoch + _HALF) % _WHOLE - _HALF) <= NEAR_S:
                    return True
    return False


def wants_follow_up(data: bytes) -> bool:
    """Whether the first TLV of a sender's packet asks for follow-up telemetry."""
    return len(data) >= FOLLOW_UP_AT + _FOLLOW_UP.size and data[BASE_BYTES + 1 : FOLLOW_UP_AT] == b"\x07\x00\x10"


def reply(data: bytes, sequence: int, rx_ns: int, ttl: int, error: int) -> bytearray:
    """Returns the answer to a sender's packet, of the same length but at least 44 bytes, to be stamped by `stamp_reply`
    when it leaves. TLVs are returned as they came, with a flag for whether they were recognized (RFC 8972, section 4):
    follow-up telemetry and padding are. `data` has at least LEAST_SENDER_BYTES; fields that a TWAMP Light sender does
    not have are zero."""
    packet = bytearray(BASE_BYTES)
    session = int.from_bytes(data[14:16], "big") if len(data) >= BASE_BYTES else 0
    REFLECTOR.pack_into(
        packet, 0, sequence & 0xFFFFFFFF, 0, error, session, to_ntp(rx_ns), data[:4], data[4:12], data[12:14], ttl
    )
    return packet + _flagged(data[BASE_BYTES:])


@lru_cache(64)  # the TLVs of a sender are mostly the same in each packet
def _flagged(tlvs: bytes) -> bytes:
    """What is returned of the bytes after the first 44 of a sender's packet."""
    flagged = bytearray(tlvs)
    at = 0
    while at + _TLV.size <= len(flagged):
        _, kind, length = _TLV.unpack_from(flagged, at)
        if kind in (_EXTRA_PADDING, _FOLLOW_UP_TYPE):
            flagged[at] &= ~_UNRECOGNIZED
        elif kind or any(flagged[at:]):
            flagged[at] |= _UNRECOGNIZED
        else:
            break  # the padding of TWAMP Light, which has no TLVs
        at += _TLV.size + length
    return bytes(flagged)


def stamp_reply(packet: bytearray, ns: int) -> None:
    """Put the time of departure into an answer."""
    struct.pack_into("!Q", packet, 4, to_ntp(ns))


def add_follow_up(packet: bytearray, sequence: int, left_ns: int) -> None:
    """Report in an answer when an earlier one, with the reflector's number `sequence`, really left."""
    _FOLLOW_UP.pack_into(packet, FOLLOW_UP_AT, sequence & 0xFFFFFFFF, to_ntp(left_ns), _SOFTWARE_LOCAL)
