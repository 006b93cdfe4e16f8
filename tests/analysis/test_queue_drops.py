"""Drops of switch queues beside the bursts of the hosts on their ports, counted window by window in Python."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from counted_windows import counting, named
from hypothesis import example, given, settings
from hypothesis import strategies as st
from linked import links_at
from storelib import write

from mburst.analysis.bursts.find import find_bursts
from mburst.analysis.partition.detect import detect
from mburst.analysis.rack import context
from mburst.analysis.rack.period import Period
from mburst.sql import StoreFolder

S = 10**9
HOUR = 3600 * S
START = 1_795_132_800 * S
FULL = 125_000_000  # wire bytes of 1 s at 1 Gb/s
LENGTH = 40
HOSTS = (("r1", "a", "eth0"), ("r1", "a", "eth1"), ("r1", "b", "eth0"), ("r2", "a", "eth0"))
COUNTS = ("windows", "lossy_windows", "drops", "burst_windows", "lossy_burst_windows", "burst_drops")
NAMES = ("rack", "host", "interface", "device", "port", "queue", "semantics")
LINK = {"ts_ns": -S, "host": "b", "interface": "eth0", "rack": "r1", "port": "p1", "queue": "",
        "origin": "configuration", "present": True}  # fmt: skip
WINDOW = {"window_start_ns": 3 * S, "length": S // 4, "port": "p1", "queue": "0", "semantics": "gauge",
          "dropped_packets": 5, "quality": 0}  # fmt: skip

hot = st.lists(st.sets(st.integers(0, LENGTH - 1), max_size=12), min_size=len(HOSTS), max_size=len(HOSTS))
links = st.lists(
    st.fixed_dictionaries(
        {
            "ts_ns": st.sampled_from([-S, 9 * S, 20 * S + 1]),
            "host": st.sampled_from("ab"),
            "interface": st.sampled_from(["", "eth0", "eth1"]),
            "rack": st.sampled_from(["", "r1", "r2"]),
            "port": st.sampled_from(["p1", "p2"]),
            "queue": st.sampled_from(["", "0"]),
            "origin": st.sampled_from(["configuration", "lldp"]),
            "present": st.sampled_from([True, True, False]),
        }
    ),
    max_size=6,
    unique_by=lambda of: (of["ts_ns"], of["host"], of["interface"], of["port"], of["origin"]),
)
windows = st.lists(
    st.fixed_dictionaries(
        {
            "window_start_ns": st.integers(-2, LENGTH).map(lambda at: at * S + S // 3),
            "length": st.sampled_from([S // 4, S, 3 * S]),
            "port": st.sampled_from(["p1", "p2"]),
            "queue": st.sampled_from("01"),
            "semantics": st.sampled_from(["gauge", "periodic-max"]),
            "dropped_packets": st.sampled_from([0, 0, 5, None]),
            "quality": st.sampled_from([0, 0, 0, 1024]),
        }
    ),
    max_size=60,
    unique_by=lambda of: (of["window_start_ns"], of["length"], of["port"], of["queue"], of["semantics"]),
)


def filled(folder: Path, hot_bins: list[set[int]], linked: list[Any], seen: list[Any]) -> StoreFolder:
    """Stores LENGTH seconds of each of HOSTS; times are relative to START."""
    store = StoreFolder.create(folder)
    for (rack, host, interface), bins in zip(HOSTS, hot_bins, strict=True):
        of = {"recording_id": f"{rack}-{host}-{interface}", "rack": rack, "host": host, "interface": interface}
        times = {"start_ns": START, "end_ns": START + LENGTH * S - 1, "bin_ns": S, "source_bin_ns": S}
        write(store, "recordings", {**of, **times, "capture_id": of["recording_id"]})
        rows = [{**of, "ts_ns": START + at * S, "wire_bytes": FULL, "bytes": FULL - 24} for at in sorted(bins)]
        if rows:
            write(store, "bins", *rows)
    for row in linked:
        write(store, "links", {**row, "ts_ns": START + row["ts_ns"], "link_bps": 10**9})
    if seen:
        write(store, "queues", *(timed(row) for row in seen))
    return store


def timed(row: dict[str, Any]) -> dict[str, Any]:
    """Returns the window with times from START on."""
    start = START + row["window_start_ns"]
    rest = {name: value for name, value in row.items() if name != "length"}
    return {**rest, "window_start_ns": start, "ts_ns": start + row["length"]}


def holding(linked: list[Any], rack: str, host: str, interface: str, window: Any) -> set[str]:
    """Returns the interfaces of the links that attach the window to an interface for all of its time, without a new
    report of the link."""
    since, until = (window[name] - START for name in ("window_start_ns", "ts_ns"))
    times = [since, *(of["ts_ns"] for of in linked if since < of["ts_ns"] < until)]
    return {
        of["interface"]
        for of in links_at(linked, since)
        if all(any(of is other for other in links_at(linked, at)) for at in times)
        and (of["host"], of["port"]) == (host, window["port"])
        and of["rack"] in ("", rack)
        and of["interface"] in ("", interface)
        and of["queue"] in ("", window["queue"])
    }


def drops_once(seen: list[Any], port: str, since: int, until: int) -> dict[Any, int | None]:
    """Returns the drops of the port's windows that reach into [since, until); None where other windows have them."""
    windows = [{**timed(row), "batch": ""} for row in seen if row["port"] == port]
    within = [window for window in windows if window["window_start_ns"] < until and window["ts_ns"] > since]
    return {window: counts["dropped_packets"] for window, counts in counting(within).items()}


def counted(store: StoreFolder, linked: list[Any], seen: list[Any], since: int, until: int) -> Counter[Any]:
    """Returns the rows of queue_drops.sql, counted in Python."""
    with store.connect() as con:
        bursts = find_bursts(con)
    once = {port: drops_once(seen, port, since, until) for port in ("p1", "p2")}
    rows: set[Any] = set()
    for window in map(timed, seen):
        recorded = window["window_start_ns"] >= START and window["ts_ns"] <= START + LENGTH * S
        drops = window["dropped_packets"]
        if not recorded or drops is None or window["quality"] or not since <= window["window_start_ns"] < until:
            continue
        if once[window["port"]][named(window)] is None:
            continue
        for rack, host, interface in HOSTS:
            for name in holding(linked, rack, host, interface, window):
                met = any(
                    (burst["rack"], burst["host"]) == (rack, host)
                    and name in ("", burst["interface"])
                    and burst["start_ns"] < window["ts_ns"]
                    and burst["end_ns"] > window["window_start_ns"]
                    for burst in bursts
                )
                key = (rack, host, name, "tor-1", window["port"], window["queue"], window["semantics"])
                rows.add((*key, window["window_start_ns"], window["ts_ns"], drops, met))
    found: Counter[Any] = Counter()
    for *key, start, _, drops, met in rows:
        of = (*key, start // HOUR * HOUR)
        found.update({(of, "windows"): 1, (of, "lossy_windows"): drops > 0, (of, "drops"): drops})
        found.update(
            {
                (of, "burst_windows"): met,
                (of, "lossy_burst_windows"): met and drops > 0,
                (of, "burst_drops"): met * drops,
            }
        )
    return +found


@pytest.mark.parametrize(
    ("queues", "linked_queue", "found"),
    [
        (("0", "1"), "", {"0", "1"}),
        (("0", "1:10", "1:20"), "", {"0"}),  # the whole of a port, and its classes
        (("0", "1:10", "1:20"), "1:10", {"1:10"}),
        (("1:10", "1:20"), "", {"1:10", "1:20"}),
        (("p/all", "p/all/fast"), "", {"p/all"}),
        (("0", "in:0", "voq:p9:0"), "", {"0"}),  # queues at the input have packets that the host sent
        (("0", "in:0"), "in:0", {"in:0"}),
    ],
)
def test_drops_of_a_port_are_those_of_its_output_once(
    queues: tuple[str, ...], linked_queue: str, found: set[str], tmp_path: Path
) -> None:
    link = {**LINK, "queue": linked_queue}
    seen = [{"window_start_ns": 2 * S, "length": S, "port": "p1", "queue": queue, "semantics": "gauge",
             "dropped_packets": 3, "quality": 0} for queue in queues]  # fmt: skip
    store = filled(tmp_path / "store", [set(), set(), {2}, set()], [link], seen)
    tables = detect(store.files(), since_ns=START, until_ns=START + HOUR).tables
    assert {row["queue"]: row["burst_drops"] for row in tables.queue_drops.to_pylist()} == dict.fromkeys(found, 3)


@pytest.mark.parametrize("cut", [(), (5,)])
@pytest.mark.parametrize(
    ("queues", "drops"),
    [
        ([("0", 2), ("1:10", 10), ("1:20", 10)], 9),
        ([("1:10", 2), ("1:20", 2), ("0", 10), ("1:10", 10)], 9),
        ([("0", 2), ("1:10", 2), ("1:20", 2), ("1:10", 3)], 6),
        ([("0 impossible", 2), ("1:10", 2), ("1:20", 2)], 6),
    ],
)
def test_classes_of_a_port_count_when_the_whole_queue_has_no_window(
    cut: tuple[int, ...], queues: list[tuple[str, int]], drops: int, tmp_path: Path
) -> None:
    """Whether a span is divided or not."""
    seen = [{"window_start_ns": at * S, "length": S, "port": "p1", "queue": queue.split()[0], "semantics": "gauge",
             "dropped_packets": 3, "quality": 1024 if " " in queue else 0} for queue, at in queues]  # fmt: skip
    store = filled(tmp_path / "store", [set(), set(), {2}, set()], [LINK], seen)
    edges = [START, *(START + at * S for at in cut), START + HOUR]
    spans = [detect(store.files(), since_ns=since, until_ns=until).tables for since, until in pairwise(edges)]
    assert sum(row["drops"] for tables in spans for row in tables.queue_drops.to_pylist()) == drops


@pytest.mark.parametrize(("linked_queue", "drops"), [(None, 9 + 3), ("", 9), ("1:10", 6), ("in:0", 3)])
def test_drops_of_the_ports_of_a_rack_count_once(linked_queue: str | None, drops: int, tmp_path: Path) -> None:
    """Three packets in each window: of the whole port (0), of its classes also when it has none, and at its input."""
    link = {**LINK, "queue": linked_queue}
    seen = [
        {"window_start_ns": at * S, "length": S, "port": port, "queue": queue, "semantics": "gauge",
         "dropped_packets": 3, "quality": 0}
        for port, windows in (
            ("p1", [("0", 2), ("1:10", 2), ("in:0", 2), ("1:10", 3), ("1:20", 3)]),
            ("p2", [("0", 2), ("1:10", 2)]),
        )
        for queue, at in windows
    ]  # fmt: skip
    store = filled(tmp_path / "store", [set(), set(), {2}, set()], [] if linked_queue is None else [link], seen)
    period = Period(START, START + HOUR)
    with store.connect() as con:
        con.execute("CREATE TEMP TABLE rack_recordings AS SELECT 'b' AS host")
        assert context.read_queues(con, "r1", period, 10).drops == drops


@pytest.mark.costly
@settings(max_examples=12, deadline=None)
@given(hot, links, windows, st.integers(1, LENGTH - 1))
@example([set()] * len(HOSTS), [LINK], [{**WINDOW, "length": 3 * S}, WINDOW], 1)  # of two widths
def test_windows_beside_bursts_are_counted_once_however_it_is_divided(
    tmp_path_factory: pytest.TempPathFactory, hot_bins: list[Any], linked: list[Any], seen: list[Any], cut: int
) -> None:
    """Windows of different widths may have the same packets: which of them count depends on the windows of the span."""
    store = filled(tmp_path_factory.mktemp("drops") / "store", hot_bins, linked, seen)
    edges = [START - HOUR, START + cut * S, START + HOUR]
    found: Counter[Any] = Counter()
    expected: Counter[Any] = Counter()
    for since, until in pairwise(edges):
        expected.update(counted(store, linked, seen, since, until))
        for row in detect(store.files(), since_ns=since, until_ns=until).tables.queue_drops.to_pylist():
            of = (*(row[name] for name in NAMES), row["hour_ns"])
            found.update({(of, name): row[name] for name in COUNTS})
    assert +found == expected
