"""Switch ports in the report of a rack: they stand in for the hosts behind them while these were not recorded."""

from __future__ import annotations

import pytest
from racklib import DAY, FULL, HOUR, MS, START, fill, fill_ports, report
from storelib import write

from mburst.analysis.bursts.find import find_bursts
from mburst.dashboards.rack.tables import hosts
from mburst.dashboards.rack.words import verdict
from mburst.sql import StoreFolder


@pytest.fixture
def store(tmp_path):
    return StoreFolder.create(tmp_path / "store")


def test_a_switch_port_receives_what_it_sends_to_its_host(store):
    fill_ports(store, {"E0": [(50, 10)], "E1": [(55, 10)], "E2": [(500, 10)]})
    fill_ports(store, {"E0": [(900, 10), (950, 10)]}, "in")  # the host sends
    page = report(store)
    assert sorted((lane.interface, lane.direction, lane.receiver) for lane in page.lanes) == [
        ("E0", "in", None), ("E0", "out", "tor1 E0"), ("E1", "out", "tor1 E1"), ("E2", "out", "tor1 E2"),
    ]  # fmt: skip
    assert [lane.bursts for lane in page.inbound] == [1, 1, 1] and page.duration.n == 3
    assert verdict(page).startswith("3 of 3 hosts received 3 bursts")
    seconds = [row[hosts(page).heads.index("Busiest second")] for row in hosts(page).rows]
    assert len(seconds) == 4 and "–" not in seconds, "bytes are known, though packets are not"
    found = page.contention
    assert (found.hosts, found.bursts, found.most, found.contended_ns) == (3, 3, 2, 5 * MS)
    assert [(pair.hosts, pair.shared_ns) for pair in found.pairs] == [(("tor1 E0", "tor1 E1"), 5 * MS)]


def test_the_port_of_a_host_that_only_sends_receives_nothing(store):
    fill_ports(store, {"E0": [(50, 10)]}, "in")
    fill_ports(store, {"E0": []})
    page = report(store)
    assert page.duration.n == 0 and verdict(page).startswith("No burst reached the host recorded")


def test_a_switch_port_stands_in_for_its_host_only_if_that_was_not_recorded(store):
    links = [
        {"device": "tor1", "port": port, "queue": "", "host": host, "rack": "r1", "origin": "configuration",
         "present": True, "ts_ns": START}
        for port, host in (("E0", "a"), ("E1", "b"))
    ]  # fmt: skip
    write(store, "links", *links)
    fill(store, {"a": [(50, 10)]})
    fill_ports(store, {"E0": [(50, 10)], "E1": [(55, 10)]})
    page = report(store)
    assert [(lane.host, lane.receiver) for lane in page.inbound] == [("a", "a"), ("tor1", "b")]
    assert verdict(page).startswith("2 of 2 hosts received 2 bursts")
    assert page.contention.by_host == {"a": 1.0, "b": 1.0}


def test_a_recording_of_another_time_hides_no_port(store):
    """This holds for the list of bursts, which has recordings of all times, and for the report of a rack."""
    link = {"device": "tor1", "port": "E0", "queue": "", "host": "a", "rack": "r1", "origin": "configuration"}
    write(store, "links", {**link, "present": True, "ts_ns": START})
    fill(store, {"a": [(50, 10)]}, length=HOUR)
    fill_ports(store, {"E0": [(50, 10)], "E1": [(55, 10)]}, start=START + DAY, length=DAY)
    times = [
        (START, START + DAY, ["a"]),
        (START + DAY, START + 2 * DAY, ["a", "tor1 E1"]),
        (None, None, ["a", "a", "tor1 E1"]),
    ]
    for since, until, receivers in times:
        with store.connect(since_ns=since, until_ns=until) as con:
            find_bursts(con, since_ns=since, until_ns=until)
            found = con.execute("SELECT host, start_ns FROM received_times('bursts') ORDER BY ALL").fetchall()
        assert [host for host, _ in found] == receivers
    assert {lane.receiver for lane in report(store, start=START + DAY).inbound} == {"a", "tor1 E1"}


def test_time_counted_twice_after_a_clock_step_covers_no_burst_of_a_port(store):
    """A burst of 60 ms is recorded for 30 ms, of which 20 ms again and 10 ms more: 60 ms in two clock epochs cover only
    40 ms of the burst."""
    link = {"device": "tor1", "port": "E0", "queue": "", "host": "a", "rack": "r1", "origin": "configuration"}
    write(store, "links", {**link, "present": True, "ts_ns": START})
    fill_ports(store, {"E0": [(100, 60)]})
    name = {"recording_id": "r", "host": "a", "rack": "r1"}
    run = {"start_ns": START, "end_ns": START + 140 * MS - 1, "clock_epochs": 2, "written_ns": START + HOUR}
    write(store, "recordings", {**name, **run, "packets": 60})
    spans = [(0, ms) for ms in range(100, 130)] + [(1, ms) for ms in range(110, 140)]
    sizes = {"bytes": FULL - 24, "wire_bytes": FULL, "quality": 2}
    write(store, "bins", *({**name, **sizes, "clock_epoch": epoch, "ts_ns": START + ms * MS} for epoch, ms in spans))
    with store.connect() as con:
        find_bursts(con)
        times = "(start_ns - $1) // $2, (end_ns - $1) // $2"
        found = con.execute(f"SELECT {times}, receiver FROM bursts ORDER BY ALL", [START, MS]).fetchall()
        assert found == [(100, 130, "a"), (100, 160, "a"), (110, 140, "a")]


def test_a_short_recording_of_a_host_hides_its_port_no_longer_than_it_lasts(store):
    """The port is recorded for a day, the host for a minute of it. One burst of the port is before that minute, one is
    in it, and a long one begins in it."""
    link = {"device": "tor1", "port": "E0", "queue": "", "host": "a", "rack": "r1", "origin": "configuration"}
    write(store, "links", {**link, "present": True, "ts_ns": START})
    second, minute = 1000 * MS, 60_000 * MS
    fill_ports(store, {"E0": [(500, 10), (60_500, 10), (90_000, 60_000)], "E1": [(505, 10)]}, length=DAY)
    fill(store, {"a": [(500, 10), (30_000, 30_000)]}, start=START + minute, length=minute)
    page = report(store)
    port = next(lane for lane in page.lanes if lane.interface == "E0")
    assert (port.receiver, port.bursts, port.recorded_ns) == ("a", 3, DAY)
    assert (port.fan_in, port.largest_fan_in) == (None, None), "not 0 senders, but nobody knows how many"
    inbound = {f"{lane.host} {lane.interface}": lane for lane in page.inbound}
    assert {name: lane.bursts for name, lane in inbound.items()} == {"a eth0": 2, "tor1 E0": 2, "tor1 E1": 1}
    assert (inbound["a eth0"].recorded_ns, inbound["tor1 E0"].recorded_ns) == (minute, DAY - minute)
    assert inbound["a eth0"].burst_ns == inbound["tor1 E0"].burst_ns == 10 * MS + 30 * second
    assert sum(cell.bursts for row in page.cells for cell in row) == 5 == page.duration.n
    for lane, cells in zip(page.inbound, page.cells, strict=True):
        assert sum(cell.burst_ns for cell in cells) == lane.burst_ns
        assert sum(cell.recorded_ns for cell in cells) == lane.recorded_ns
        assert all(cell.burst_ns <= cell.recorded_ns for cell in cells)
    assert verdict(page).startswith("2 of 2 hosts received 5 bursts")
    found = page.contention
    assert (found.hosts, found.bursts, found.contended_ns) == (2, 4, 5 * MS), "the long one is one burst of its host"
    with store.connect() as con:
        find_bursts(con)
        spans = con.execute("SELECT end_ns - start_ns FROM received_times('bursts') WHERE host = 'a' ORDER BY start_ns")
        assert spans.fetchall() == [(10 * MS,), (10 * MS,), (minute,)]


RECEIVED = [  # the links of a port (host, interface, present, at), and who received its traffic; all at once
    ([("a", "eth0", True, 0)], None),  # the host was recorded itself
    ([("a", "eth1", True, 0)], "a"),  # on another interface
    ([("a", "", True, 0)], None),  # on an unknown interface
    ([("b", "eth0", True, 0)], "b"),
    ([("a", "eth0", True, 0), ("a", "eth0", False, 1)], "tor1 E"),  # the link was removed
    ([("a", "eth0", True, 0), ("a", "eth0", False, 1), ("b", "eth0", True, 2)], "b"),
    ([("a", "eth0", True, 0), ("b", "eth0", True, 1)], "tor1 E"),  # another switch is behind the port
]


def test_the_receiver_of_the_traffic_of_a_switch_port(store):
    """Each case has a port, and hosts of its own: a, which was recorded, and b."""
    for number, (links, _) in enumerate(RECEIVED):
        row = {"device": "tor1", "port": f"E{number}", "queue": "", "rack": "r1", "origin": "lldp"}
        for host, interface, present, at in links:
            of = {"host": f"{host}{number}", "interface": interface, "present": present, "ts_ns": START + at}
            write(store, "links", row | of)
    fill(store, {f"a{number}": [(50, 10)] for number in range(len(RECEIVED))})
    fill_ports(store, {f"E{number}": [(50, 10)] for number in range(len(RECEIVED))})
    found = {lane.interface: lane.receiver for lane in report(store).inbound if lane.host == "tor1"}
    assert found == {
        f"E{number}": f"{receiver}{number}" for number, (_, receiver) in enumerate(RECEIVED) if receiver is not None
    }
