"""Whoever chooses addresses and ports cannot make the engine's tables slow, or make it take two flows for one. The
tests count inspected slots, not time. The crafted inputs collide under the constants of hash.h and decode/walk.h, which
are public; only the seed is unknown."""

from __future__ import annotations

import functools
import struct
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import capture_builder as build
import numpy as np
import pytest
from building import SANITIZE, program
from capture_builder import Interface, pcap_header, pcap_record
from dump_tool import run

SECOND_NS = 10**9
SENDERS = 60_000
PORTS = 0x0035_1000
U64 = np.uint64


class Cost(NamedTuple):
    packets: int
    steps: int
    rows: int
    flows: int


@functools.cache
def driver() -> Path:
    return program("tests/c/hash_driver.c", flags=(*SANITIZE, "-DMB_COUNT_STEPS"))


def cost(path: Path, packets: list[bytes]) -> Cost:
    """Returns the cost of the IP packets within one bin, each as a frame."""
    records = (pcap_record(1_700_000_000, i, ethernet(packet)) for i, packet in enumerate(packets))
    path.write_bytes(pcap_header() + b"".join(records))
    code, output = run(driver(), path, str(SECOND_NS))
    assert code == 0, output
    return Cost(*map(int, output.split()))


def ethernet(packet: bytes) -> bytes:
    return bytes.fromhex("020000000001 020000000002") + (b"\x08\x00" if packet[0] >> 4 == 4 else b"\x86\xdd") + packet


def ipv4(source: int, destination: int, ports: int) -> bytes:
    header = struct.pack(">BBHHHBBHII", 0x45, 0, 28, 1, 0, 64, 17, 0, source, destination)
    return header + struct.pack(">IHH", ports, 8, 0)


def ipv6(high: int, low: int, ports: int = PORTS) -> bytes:
    return struct.pack(">IHBBQQQQIHH", 6 << 28, 8, 17, 64, high, low, 0x20010DB8 << 32, 1, ports, 8, 0)


# --- the public constants, in 64-bit arithmetic ---


def product(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns the low and the high half of a × b."""
    mask, half = U64(0xFFFFFFFF), U64(32)
    low, middle = (a & mask) * (b & mask), (a >> half) * (b & mask)
    other, high = (a & mask) * (b >> half), (a >> half) * (b >> half)
    carry = (low >> half) + (middle & mask) + (other & mask)
    return low & mask | carry << half, high + (middle >> half) + (other >> half) + (carry >> half)


def flows_without_seed(addresses: np.ndarray) -> np.ndarray:
    """Returns mb_flow_mix() for UDP over IPv4 with a seed of 0."""
    factor = U64((4 << 40 | 17 << 32 | PORTS) ^ 0xE7037ED1A0B428DB)
    addresses = addresses ^ U64(0x589965CC75374CC3)
    low, high = product(addresses, np.full_like(addresses, factor))
    low, high = low ^ addresses, high ^ factor
    first, second = product(low ^ U64(0x8EBC6AF09C88C6E3), high)
    return low ^ first ^ second


def texts_without_seed(addresses: np.ndarray) -> np.ndarray:
    """Returns mb_hash_address() for IPv4 with a seed of 0."""
    low = addresses | U64(0xFFFF << 32)
    first, second = product(low ^ U64(0x9E3779B97F4A7C15), np.full_like(low, U64(4 ^ 0xD1B54A32D192ED03)))
    first, second = product(first ^ second, np.full_like(low, U64(0x8EBC6AF09C88C6E3)))
    return first ^ second


def test_the_attack_knows_the_hashes():
    """The two functions above are those of the engine without a seed; otherwise the other tests would show nothing."""
    assert flows_without_seed(np.array([0xC0000201_C6336401], U64))[0] == python_mix(
        0xC0000201_C6336401, 4 << 40 | 17 << 32 | PORTS
    )


def python_mix(addresses: int, tail: int) -> int:
    mask = 2**64 - 1
    factor = tail ^ 0xE7037ED1A0B428DB
    addresses ^= 0x589965CC75374CC3
    low, high = addresses * factor & mask ^ addresses, addresses * factor >> 64 ^ factor
    whole = (low ^ 0x8EBC6AF09C88C6E3) * high
    return low ^ (whole & mask) ^ (whole >> 64)


def colliding(hashes: Callable[[np.ndarray], np.ndarray], first: int, bits: int, count: int) -> list[int]:
    """Returns COUNT addresses, from FIRST on, with hashes that end in BITS zeros."""
    found: list[int] = []
    while len(found) < count:
        addresses = np.arange(first, first + 2**20, dtype=U64)
        found += addresses[hashes(addresses) & U64(2**bits - 1) == 0].tolist()
        first += 2**20
    return found[:count]


# --- crafted against ordinary ---


@pytest.fixture(scope="module")
def ordinary(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Cost]:
    """Returns the steps for random addresses, as many of each kind as are crafted."""
    folder = tmp_path_factory.mktemp("ordinary")
    random = np.random.default_rng(1)
    high = [0x20010DB8_00000000 | int(x) for x in random.integers(0, 2**32, SENDERS)]
    low = [int(x) for x in random.integers(0, 2**63, SENDERS)]
    return {
        "ipv6": cost(folder / "ipv6", [ipv6(h, x) for h, x in zip(high, low, strict=True)]),
        "ipv4": cost(folder / "ipv4", [ipv4(x, 1, PORTS) for x in map(int, random.integers(0, 2**32, 3000))]),
    }


def test_senders_of_a_cancelling_prefix_cost_no_more(tmp_path, ordinary):
    prefix = 6 ^ 0xD1B54A32D192ED03
    crafted = cost(tmp_path / "prefix", [ipv6(prefix, i) for i in range(SENDERS)])
    assert (crafted.packets, crafted.rows, crafted.flows) == (SENDERS, SENDERS, SENDERS)
    assert crafted.steps < 1.5 * ordinary["ipv6"].steps


def test_cancelling_interface_identifiers_are_different_senders(tmp_path, ordinary):
    """Under the public constants all of them had one fingerprint, and so were one sender. Their prefixes are
    consecutive, which costs the same for any seed; each run draws a new one."""
    packets = [ipv6(0x20010DB8 << 32 | i, 0xEB44ACCAB455D165) for i in range(SENDERS)]
    crafted = cost(tmp_path / "identifier", packets)
    assert (crafted.packets, crafted.rows, crafted.flows) == (SENDERS, SENDERS, SENDERS)
    steps = [crafted.steps, *(cost(tmp_path / "identifier", packets).steps for _ in range(7))]
    assert max(steps) < 1.1 * ordinary["ipv6"].steps


def test_flows_of_one_slot_cost_no_more(tmp_path, ordinary):
    found = colliding(flows_without_seed, 0xC0000201 << 32, 12, 3000)
    crafted = cost(tmp_path / "flows", [ipv4(a >> 32, a & 0xFFFFFFFF, PORTS) for a in found])
    assert (crafted.packets, crafted.rows, crafted.flows) == (3000, 1, 3000)
    assert crafted.steps < 1.5 * ordinary["ipv4"].steps


def test_texts_of_one_slot_cost_no_more(tmp_path, ordinary):
    found = colliding(texts_without_seed, 1, 12, 3000)
    crafted = cost(tmp_path / "texts", [ipv4(a, 1, PORTS) for a in found])
    assert (crafted.packets, crafted.rows, crafted.flows) == (3000, 3000, 3000)
    assert crafted.steps < 1.5 * ordinary["ipv4"].steps


def test_sixty_thousand_colliding_flows_cost_no_more(tmp_path, ordinary):
    found = colliding(flows_without_seed, 0xC0000201 << 32, 8, SENDERS)
    crafted = cost(tmp_path / "many", [ipv4(a >> 32, a & 0xFFFFFFFF, PORTS) for a in found])
    assert crafted.packets == crafted.flows == SENDERS
    assert crafted.steps < 1.5 * ordinary["ipv6"].steps


def described(names: list[str]) -> bytes:
    return build.section() + b"".join(Interface(name=name, resolution=9).block() for name in names)


@pytest.mark.parametrize("name", ["eth{}", "eth0"])
def test_interfaces_described_repeatedly_cost_one_lookup_each(tmp_path, name):
    """As many interfaces as a capture may have, in each of three sections: with different names, or all with the same
    name. Interfaces of the same name have consecutive numbers, which costs the same for any seed; each run draws a new
    one."""
    count = 65_536
    path = tmp_path / "interfaces.pcapng"
    path.write_bytes(3 * described([name.format(i) for i in range(count)]) + build.enhanced(0, SECOND_NS, bytes(60)))
    for _ in range(8):
        code, output = run(driver(), path, str(SECOND_NS))
        assert code == 0, output
        assert Cost(*map(int, output.split())).steps < 15 * count
