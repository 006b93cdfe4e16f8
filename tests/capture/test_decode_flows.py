"""Fingerprints of flows: no collisions, no pattern. Deterministic, as its seed is 0 here."""

from __future__ import annotations

import random
from collections.abc import Callable

import frame_builder as make
import pytest
from decode_check import ETHERNET, PORTS, V4, v4, v6
from decode_tool import Frame, driver


def flow_of(data: list[bytes]) -> list[int]:
    return [packet.flow for packet in driver().decode([Frame(frame, len(frame)) for frame in data], ETHERNET)]


def test_fingerprints_do_not_collide_and_are_uniform():
    """Neighbouring addresses and ports, as real flows have. Deterministic: a fingerprint has no seed."""
    few = make.udp(bytes(12), PORTS)
    values = flow_of(
        [
            make.ethernet(make.ipv4(port.to_bytes(2, "big") + few[2:], make.UDP, V4[0] + host, V4[1] + peer), 0x0800)
            for port in range(32768, 32768 + 100)
            for host in range(20)
            for peer in range(20)
        ]
    )
    assert len(set(values)) == len(values) == 40_000
    for shift in (0, 16, 32):  # 0.19 pairs are expected to share 32 bits
        assert len(values) - len({value >> shift & 0xFFFFFFFF for value in values}) <= 3
    for bit in range(64):
        assert abs(sum(value >> bit & 1 for value in values) / len(values) - 0.5) < 0.02


@pytest.mark.parametrize("source", [0, 1, 0x80000000, 0xFFFFFFFE, 0xFFFFFFFF])
@pytest.mark.parametrize("destination", [0, 1, 0x80000000, 0xFFFFFFFE, 0xFFFFFFFF])
def test_flows_between_extreme_addresses_do_not_collide(source: int, destination: int):
    """A factor near 2^64 left few bits of the ports in the product."""
    values = flow_of(
        [
            make.ethernet(make.ipv4(make.udp(bytes(12), (port, 9)), protocol, source, destination), 0x0800)
            for port in range(1, 500)
            for protocol in (make.TCP, make.UDP, 33, 136)
        ]
    )
    assert len(set(values)) == len(values)


@pytest.mark.parametrize("ip, kind, first, last", [(v4, 0x0800, 26, 38), (v6, 0x86DD, 22, 58)])
def test_every_bit_of_a_flow_flips_half_of_the_fingerprint(ip: Callable[..., bytes], kind: int, first: int, last: int):
    draw = random.Random(1)
    turned = [[0] * 64 for _ in range(8 * (last - first))]
    samples = 200
    for _ in range(samples):
        frame = bytearray(make.ethernet(ip(make.udp(bytes(20), PORTS), make.UDP), kind))
        frame[first:last] = draw.randbytes(last - first)
        base = int.from_bytes(frame, "big")
        bits = [8 * (len(frame) - 1 - at // 8) + at % 8 for at in range(8 * first, 8 * last)]
        plain, *others = flow_of(
            [value.to_bytes(len(frame), "big") for value in (base, *(base ^ 1 << b for b in bits))]
        )
        for row, other in zip(turned, others, strict=True):
            for bit in range(64):
                row[bit] += (plain ^ other) >> bit & 1
    for row in turned:
        assert abs(sum(row) / samples - 32) < 2
        assert all(0.3 < count / samples < 0.7 for count in row)
