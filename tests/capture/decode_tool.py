"""Builds tests/c/decode_driver.c with the decoder under ASan and UBSan, and talks to it."""

from __future__ import annotations

import functools
import struct
import subprocess
from typing import Literal, NamedTuple

from building import linked, sources_of
from decode_words import IPV4, IPV6, NONE, Address

PACKET = struct.Struct("<qQQI4xIIQIIBBHI")
TRAIN = struct.Struct("<IIII")
AMOUNT = struct.Struct("<QQqqII")
EXTRAS = struct.Struct("<QQQQI4xII")
ADDRESS = struct.Struct("<QQI4x")

Layout = Literal["frames", "ns", "us"]  # of frames in memory


class Frame(NamedTuple):
    data: bytes
    length: int
    gso: int = 0
    direction: int = 0
    ts_ns: int = 0


class Decoded(NamedTuple):
    """struct mb_packet, and the results of the other functions of decode.h for the same frame."""

    ts_ns: int
    source: Address
    bytes: int
    wire_bytes: int
    flow: int
    tcp_seq: int
    tcp_len: int
    marks: int
    direction: int
    quality: int
    ports: tuple[int, int]
    macs: tuple[int, int] | None
    destination: Address | None


class Amount(NamedTuple):
    """struct mb_subtotal."""

    bytes: int
    padding: int
    first_ns: int
    last_ns: int
    packets: int
    ce_packets: int


class Train(NamedTuple):
    """struct mb_train, with the index of its first frame, and its head without `macs` and `destination`."""

    first: int
    count: int
    tcp_end: int
    amounts: list[Amount]
    head: Decoded


def address(high: int, low: int, family: int) -> Address:
    if family == IPV4:
        assert high == 0 and low >> 32 == 0xFFFF, "IPv4 is kept as ::ffff:a.b.c.d"
        return Address(family, low & 0xFFFFFFFF)
    assert family == IPV6 or high == 0
    return Address(family, high << 64 | low)


def halves(value: Address) -> bytes:
    number = value.value | (0xFFFF << 32 if value.family == IPV4 else 0)
    return ADDRESS.pack(number >> 64, number & (1 << 64) - 1, value.family)


class Driver:
    def __init__(self) -> None:
        program = linked(("tests/c/decode_driver.c", *sources_of("capture/decode"), "capture/measure/trains.c"))
        self.process = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def ask(self, request: bytes) -> None:
        self.process.stdin.write(request)
        self.process.stdin.flush()

    def answer(self, size: int) -> bytes:
        octets = self.process.stdout.read(size)
        assert len(octets) == size, f"the driver ended with {self.process.wait()}: see its standard error"
        return octets

    def send(self, command: bytes, frames: list[Frame], *batch: int) -> None:
        request = [command, struct.pack("<5I", len(frames), *batch)]
        for frame in frames:
            head = (frame.ts_ns, len(frame.data), frame.length, frame.gso, frame.direction)
            request += [struct.pack("<qIIHB5x", *head), frame.data]
        self.ask(b"".join(request))

    def decode(
        self, frames: list[Frame], linktype: int, *, fcs: int = 0, inner: bool = False, mtu: int = 0
    ) -> list[Decoded]:
        self.send(b"D", frames, linktype, fcs, inner, mtu)
        return [self.decoded() for _ in frames]

    def trains(
        self,
        frames: list[Frame],
        linktype: int,
        *,
        fcs: int = 0,
        inner: bool = False,
        mtu: int = 0,
        layout: Layout = "frames",
        widths: tuple[int, int] = (10_000, 1_000_000),
    ) -> list[Train]:
        command = {"frames": b"T", "ns": b"N", "us": b"U"}[layout]
        self.send(command + struct.pack("<2q", *widths), frames, linktype, fcs, inner, mtu)
        (count,) = struct.unpack("<I", self.answer(4))
        return [self.train() for _ in range(count)]

    def train(self) -> Train:
        first, count, tcp_end, n = TRAIN.unpack(self.answer(TRAIN.size))
        amounts = [Amount(*AMOUNT.unpack(self.answer(AMOUNT.size))) for _ in range(n)]
        return Train(first, count, tcp_end, amounts, self.packet())

    def packet(self) -> Decoded:
        ts, high, low, family, size, wire, flow, seq, tcp_len, marks, direction, quality, ports = PACKET.unpack(
            self.answer(PACKET.size)
        )
        return Decoded(
            ts, address(high, low, family), size, wire, flow, seq, tcp_len, marks, direction, quality,
            (ports >> 16, ports & 0xFFFF), None, None,
        )  # fmt: skip

    def decoded(self) -> Decoded:
        packet = self.packet()
        sender, receiver, to_high, to_low, to_family, has_macs, has_destination = EXTRAS.unpack(
            self.answer(EXTRAS.size)
        )
        return packet._replace(
            macs=(sender, receiver) if has_macs else None,
            destination=address(to_high, to_low, to_family) if has_destination else None,
        )

    def text(self, value: Address) -> str:
        self.ask(b"F" + halves(value))
        return self.answer(*struct.unpack("<I", self.answer(4))).decode()

    def parsed(self, text: bytes) -> Address | None:
        self.ask(b"P" + struct.pack("<I", len(text)) + text)
        (found,) = struct.unpack("<I", self.answer(4))
        high, low, family = ADDRESS.unpack(self.answer(ADDRESS.size))
        assert found or family == NONE
        return address(high, low, family) if found else None


@functools.cache
def driver() -> Driver:
    return Driver()
