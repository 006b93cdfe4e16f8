"""A small fleet that has shipped two days, and the results of its detection."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow.parquet as pq
from racklib import DAY, HOUR, MS, START, fill, fill_ports
from storelib import rows as rows_of

from mburst.analysis.bursts.find import BurstDefinition, find_bursts
from mburst.fleet.detect import DayDetected, Engine, detect_day
from mburst.fleet.planning import plan
from mburst.fleet.results import PORT_TABLES, TABLES, open_results
from mburst.fleet.sealed import HostName
from mburst.fleet.ship import ShipSettings, ship
from mburst.fleet.target import open_target
from mburst.sql import StoreFolder

SHIPPED = ShipSettings(own=HostName("r1", "a"))  # the owner of the rows of switches
DATES = ("2026-11-20", "2026-11-21")
NOON = START + DAY // 2
MIDNIGHT_MS = (START + DAY - NOON) // MS  # after noon
LONG = [(MIDNIGHT_MS - 35_000 + at, 1) for at in range(0, 90_000, 5)]  # a burst of 90 s: longer than the first margin
HOSTS = {
    ("r1", "a"): [(50, 10), (MIDNIGHT_MS - 5, 10), (MIDNIGHT_MS + 70_000, 3)],
    ("r1", "b"): [(55, 10), (MIDNIGHT_MS - 2, 20)],
    ("r2", "a"): LONG,
    ("r /3", "ü d"): [(900, 1), (MIDNIGHT_MS, 1)],
}

PORTS = {"E0": [(50, 10)], "E1": [(52, 10), (MIDNIGHT_MS - 4, 10)], "E2": [(MIDNIGHT_MS - 3, 1), (MIDNIGHT_MS + 20, 2)]}
BEHIND = {"E0": "a", "E1": "c"}


def filled(folder: Path) -> StoreFolder:
    """Returns a store of HOSTS, recorded from noon to noon, and ended, so that all of it can be shipped."""
    store = StoreFolder.create(folder)
    for (rack, host), bursts in HOSTS.items():
        fill(store, {host: bursts}, start=NOON, rack=rack, senders=("10.0.0.1", "10.0.0.2", "10.0.0.3"))
        fill(store, {host: []}, start=START + 2 * DAY + HOUR, rack=rack, length=HOUR)  # moves the watermark on
    _add_switch(store)
    return store


def with_ports(folder: Path) -> StoreFolder:
    """Returns a store of HOSTS and of a switch: port E0 is before host a of r1, which was recorded; E1 before c, which
    was not; E2 before no host that links name. They burst across midnight, too."""
    store = filled(folder)
    links = [
        {"ts_ns": NOON - HOUR, "host": host, "rack": "r1", "port": port, "queue": ""} for port, host in BEHIND.items()
    ]
    rest = {"device": "tor1", "origin": "configuration", "present": True}
    with store.writer("links", rack="r1") as writer:
        writer.append(rows_of("links", *({**link, **rest} for link in links)))
    fill_ports(store, PORTS, start=NOON, length=DAY)
    fill_ports(store, {"E0": [(900, 10)]}, "in", start=NOON, length=DAY)
    fill_ports(store, {"E0": []}, start=START + 2 * DAY)  # moves the watermark on
    return store


def _add_switch(store: StoreFolder) -> None:
    """Adds queues of the ports of hosts a and b of rack r1: windows of 1 s, every third with drops, in files of no
    host."""
    links = [{"ts_ns": NOON - HOUR, "host": host, "rack": "r1", "port": host, "queue": ""} for host in ("a", "b")]
    with store.writer("links", rack="r1") as writer:
        writer.append(rows_of("links", *({**link, "origin": "configuration", "present": True} for link in links)))
    windows = [
        {"window_start_ns": at, "ts_ns": at + 10**9, "port": port, "dropped_packets": 7 * (number % 3 == 0)}
        for number, at in enumerate(range(NOON, NOON + 10 * 10**9, 10**9))
        for port in ("a", "b", "c")
    ]
    with store.writer("queues") as writer:
        writer.append(rows_of("queues", *windows))


def detected(
    target: Path, results: Path, *dates: str, engine: Engine | None = None, split: str = "auto", **more: Any
) -> DayDetected:
    """Detects DATES. Returns the result of the last."""
    definition = more.pop("definition", BurstDefinition())
    places = open_target(target), open_target(results)
    open_results(places[1], definition)
    for date in dates or DATES:
        plans = plan(*places, date, definition, split=split, **more)
        found = detect_day(*places, plans, engine or inside)
    return found


def inside(target: str, results: str, keys: list[str], progress: Any) -> Any:
    """An engine that is this process: equivalent to a separate process or a task of Spark."""
    from mburst.fleet.task import carry_out

    return [carry_out(target, results, key) for key in keys]


def shipped(store: StoreFolder, target: Path) -> Path:
    """Returns TARGET after STORE was shipped there."""
    for of in ship(store, open_target(target), SHIPPED).troubles:
        raise of
    return target


def rows(results: Path, table: str) -> list[dict[str, Any]]:
    """Returns all rows of results, with the date and rack of their path."""
    found = []
    for path in sorted((results / table).rglob("*.parquet")):
        date, rack = (unquote(part.partition("=")[2]) for part in path.parts[-3:-1])
        found += [{"date": date, "rack": rack, **row} for row in pq.read_table(path, partitioning=None).to_pylist()]
    return found


def plain(bursts: list[dict[str, Any]]) -> Counter[str]:
    """Returns bursts with the columns that bursts.sql lists, whatever others they have."""
    drop = {
        "date",
        "attached_host",
        "attached_interface",
        "retransmits",
        "ce_packets",
        "retransmits_after",
        "ce_packets_after",
    }
    return Counter(repr(sorted((key, value) for key, value in row.items() if key not in drop)) for row in bursts)


def of_whole(store: StoreFolder, definition: BurstDefinition | None = None) -> Counter[str]:
    """Returns the bursts of one database over everything, without the names of senders, which results do not have."""
    with store.connect() as con:
        return plain([without_names(burst) for burst in find_bursts(con, definition)])


def without_names(burst: dict[str, Any]) -> dict[str, Any]:
    """Returns a burst as in results."""
    top = [{key: sender[key] for key in ("source", "bytes", "share")} for sender in burst["top_sources"]]
    return {key: value for key, value in burst.items() if key != "services"} | {"top_sources": top}


def files(results: Path) -> dict[str, bytes]:
    """Returns the files of the tables by key."""
    return {
        path.relative_to(results).as_posix(): path.read_bytes()
        for table in (*TABLES, *PORT_TABLES)
        for path in (results / table).rglob("*.parquet")
    }
