"""Which queue of a switch is before which host."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from storelib import write

from mburst.analysis.bursts.find import BurstDefinition
from mburst.analysis.cause.evidence.switch import PortQueue
from mburst.analysis.cause.port import Port, port_from_bins
from mburst.analysis.cause.read import Question, linked_ports, own_addresses, packets_from, read_queues
from mburst.sql import StoreFolder

START = 10**18
IMPOSSIBLE = 1024


def port_of(host: str) -> Port:
    stretch = [(0.0, 1e9)]
    return port_from_bins((host, "eth0", "in"), 1e9, 100_000, [(np.array([0.0]), np.array([1]))], stretch, [])


def queues_of(
    store: StoreFolder, ports: list[Port], notes: list[str], until_ns: int | None = None
) -> dict[int, PortQueue]:
    with store.connect() as con:
        return read_queues(
            con, Question(BurstDefinition(), until_ns=until_ns), ports, linked_ports(con, ports, START), START, notes
        )


def window(at: int, port: str, **columns: int) -> dict[str, object]:
    return {"window_start_ns": START + at, "ts_ns": START + at + 1000, "port": port, **columns}


@pytest.fixture
def store(tmp_path):
    store = StoreFolder.create(tmp_path / "store")
    write(
        store,
        "queues",
        *(
            window(at * 1000, port, max_bytes=depth)
            for port, depth in (("Ethernet1", 10), ("Ethernet2", 20))
            for at in range(5)
        ),
    )
    return store


def test_windows_of_a_queue_outside_the_selected_time_are_ignored(tmp_path):
    store = StoreFolder.create(tmp_path / "store")
    write(store, "queues", *(window(at * 1000, "h", max_bytes=10 + at, dropped_packets=at) for at in range(10)))
    port = port_of("h")
    queue = queues_of(store, [port], [], START + 5000)[id(port)]
    assert (len(queue.start), queue.max_bytes.max(), queue.dropped) == (5, 14, 10)
    assert queues_of(store, [port], [])[id(port)].dropped == 45


def test_a_host_has_the_addresses_it_sends_from_and_receives_nothing_from(tmp_path):
    """For each address family of each interface it is the address with most bytes. A host that forwards does not have
    the addresses whose packets it forwards."""
    store = StoreFolder.create(tmp_path / "store")
    sent = [
        ("multi", "eth0", "10.0.0.1", 900),
        ("multi", "eth0", "2001:db8::1", 10),
        ("multi", "eth0", "10.0.0.9", 100),  # less than half
        ("multi", "eth1", "10.0.1.1", 50),
        ("router", "tap0", "10.9.9.9", 500),
        ("router", "tap1", "10.8.8.8", 500),
    ]
    came = [
        ("router", "uplink", "10.9.9.9", 500),
        ("router", "tap0", "10.8.8.8", 450),
        ("multi", "eth0", "10.0.0.1", 5),
    ]
    for direction, rows in (("out", sent), ("in", came)):
        times = {"direction": direction, "ts_ns": START, "first_ns": START, "last_ns": START}
        write(
            store,
            "sources",
            *(
                {**times, "host": host, "interface": interface, "source": source, "bytes": count}
                for host, interface, source, count in rows
            ),
        )
    with store.connect() as con:
        assert own_addresses(con) == dict.fromkeys(("10.0.0.1", "2001:db8::1", "10.0.1.1"), "multi")


def test_an_inventory_states_the_port_of_a_host(store):
    ports = [port_of("cache-1"), port_of("cache-2")]
    notes: list[str] = []
    assert queues_of(store, ports, notes) == {}
    link = {
        "interface": "eth0",
        "rack": "r1",
        "link_bps": 10**9,
        "device": "tor-1",
        "queue": "",
        "origin": "lldp",
        "present": True,
        "batch": "b",
    }
    write(
        store,
        "links",
        {**link, "ts_ns": START, "host": "cache-1", "port": "Ethernet1"},
        {**link, "ts_ns": START + 1, "host": "cache-1", "port": "Ethernet2"},
    )
    found = queues_of(store, ports, notes)
    assert list(found) == [id(ports[0])] and not notes
    assert found[id(ports[0])].max_bytes.tolist() == [20] * 5


LINK = {"interface": "eth0", "rack": "r1", "device": "tor-1", "queue": "", "origin": "lldp", "present": True}
ENDED = 10**9  # of the recording, after START


@pytest.mark.parametrize(
    ("reports", "depth"),
    [
        (
            [("Ethernet1", 0, True), ("Ethernet1", ENDED + 1000, False), ("Ethernet2", ENDED + 1000, True)],
            10,
        ),  # it moved later
        (
            [("Ethernet1", 0, True), ("Ethernet1", ENDED - 1000, False), ("Ethernet2", ENDED - 1000, True)],
            20,
        ),  # and had moved before
        ([("Ethernet2", ENDED + 10**12, True), ("Ethernet1", ENDED + 10**13, True)], 20),  # it was first reported later
        ([("Ethernet1", 0, True), ("Ethernet1", 1, False)], None),
    ],
)
def test_a_host_is_behind_the_port_it_was_attached_to_at_that_time(store, reports, depth):
    ports = [port_of("cache-1"), port_of("cache-2")]
    for name, at, present in reports:
        write(store, "links", {**LINK, "ts_ns": START + at, "host": "cache-1", "port": name, "present": present})
    found = queues_of(store, ports, [])
    assert [queue.max_bytes.max() for queue in found.values()] == ([] if depth is None else [depth])


def test_impossible_queue_depths_are_ignored(store):
    write(store, "queues", window(9000, "Ethernet1", max_bytes=10**12, quality=IMPOSSIBLE))
    ports = [port_of("Ethernet1")]
    assert queues_of(store, ports, [])[id(ports[0])].max_bytes.tolist() == [10] * 5


def test_packets_in_a_bin_of_senders_that_began_before(tmp_path):
    """Bins of senders can be wider than the time before and after the probes in which packets are looked for."""
    store = StoreFolder.create(tmp_path / "wide")
    wide = {"source_bin_ns": 10 * 10**9, "start_ns": START, "end_ns": START + 10**10, "host": "a"}
    write(store, "recordings", wide)
    sent = {"ts_ns": START, "first_ns": START, "last_ns": START + 9 * 10**9, "host": "a", "packets": 90}
    write(store, "sources", {"source": "10.0.0.9", **sent})
    port = replace(port_of("a"), rack="r1")
    with store.connect() as con:
        found = [packets_from(con, port, ["10.0.0.9"], START + at * 10**9, START + 10**10) for at in (0, 4, 9)]
    assert found == [90, 90, 90]
