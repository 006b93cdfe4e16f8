"""Switch ports of a fleet have tables of their own. Their bursts equal those of one database over all rows, and in
contention they stand in for hosts that were not recorded, however the fleet is divided."""

from __future__ import annotations

import csv
import io
import json
import re
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from fleetlib import BEHIND, DATES, SHIPPED, detected, files, of_whole, plain, rows, shipped
from racklib import DAY, HOUR, MS, START, fill, fill_ports, report
from storelib import rows as rows_of

from mburst.__main__ import main
from mburst.analysis.bursts.find import BurstDefinition
from mburst.fleet.inventory import HostOf
from mburst.fleet.results import PORT_TABLES, TABLES, PartitionName, read_record
from mburst.fleet.sealed import HostName
from mburst.fleet.ship import ShipSettings, ship
from mburst.fleet.ship_bursts import ship_bursts
from mburst.fleet.status import status
from mburst.fleet.target import open_target
from mburst.sql import StoreFolder

RACK = PartitionName(DATES[0], "r1", None)


def ask(capfd: pytest.CaptureFixture[str], results: Path, question: str, date: str) -> list[dict[str, str]]:
    capfd.readouterr()
    assert main(["fleet", "ask", str(results), question, "--day", date, "--csv"]) == 0
    return list(csv.DictReader(io.StringIO(capfd.readouterr().out)))


def test_bursts_of_hosts_and_ports_together_equal_those_of_one_database(
    ports_store: StoreFolder, ports_done: Path
) -> None:
    of_hosts, of_ports = rows(ports_done, "bursts"), rows(ports_done, "port_bursts")
    assert plain(of_hosts) + plain(of_ports) == of_whole(ports_store)
    assert len(of_hosts) == 8 and {row["host"] for row in of_ports} == {"tor1"}
    assert {(row["interface"], row["attached_host"]) for row in of_ports} == {*BEHIND.items(), ("E2", None)}
    for row in of_ports:
        assert (row["retransmits"], row["fan_in"], row["pattern"]) == (None, 0, "unknown")
    [across] = [row for row in of_ports if row["start_ns"] < START + DAY < row["end_ns"]]
    assert (across["date"], across["interface"], across["duration_ns"]) == (DATES[0], "E1", 10 * MS)
    for table in ("hours", "histograms", "coverage"):
        assert not {row["host"] for row in rows(ports_done, table)} & {"tor1"}
        assert {row["host"] for row in rows(ports_done, f"port_{table}")} == {"tor1"}
    assert sum(row["bursts"] for row in rows(ports_done, "port_hours")) == len(of_ports) == 6
    assert sum(row["burst_ns"] for row in rows(ports_done, "port_hours")) == sum(row["duration_ns"] for row in of_ports)


def test_a_fleet_without_ports_has_no_tables_of_ports(ports_done: Path) -> None:
    assert {key.split("/")[2] for key in files(ports_done) if key.startswith("port_")} == {"rack=r1"}
    record = read_record(open_target(ports_done), RACK)
    assert record and record.switch_ports == 4 and record.rows["port_bursts"] == 5 and record.unfit_ports == 0


def test_results_are_the_same_however_the_fleet_is_divided(
    ports_store: StoreFolder, ports_done: Path, ports_by_host: Path, tmp_path: Path
) -> None:
    """They are equal to the byte if hosts and the collector ship bursts. With the rows near bursts, the rows of ports
    are separate."""
    for table in {*TABLES, *PORT_TABLES} - {"contention"}:
        assert Counter(map(repr, rows(ports_by_host, table))) == Counter(map(repr, rows(ports_done, table))), table
    assert not ship_bursts(ports_store, open_target(tmp_path), ShipSettings("hot", own=SHIPPED.own)).troubles
    assert files(tmp_path) == files(ports_by_host)
    near = rows(tmp_path, "port_bins")
    assert {row["host"] for row in near} == {"tor1"} and not {row["host"] for row in rows(tmp_path, "bins")} & {"tor1"}
    full: Counter[tuple[Any, ...]] = Counter((row["recording_id"], row["clock_epoch"]) for row in near)
    for burst in rows(tmp_path, "port_bursts"):
        full[burst["recording_id"], burst["clock_epoch"]] -= burst["duration_ns"] // MS
    assert len(full) == 4 and not any(full.values()), "a port has no bin near its bursts here but theirs"


def test_contention_counts_a_port_for_the_host_that_was_not_recorded(
    ports_store: StoreFolder, ports_done: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Contention equals that of the rack's report over that day, however the rack is divided (test_ask.py)."""
    for date, since in zip(DATES, (START, START + DAY), strict=True):
        at_once = [row for row in ask(capfd, ports_done, "contention", date) if row["rack"] == "r1"]
        shared = sum(int(row["ns"]) for row in at_once if int(row["hosts_at_once"]) >= 2)
        found = report(ports_store, "r1", since).contention
        assert (shared, max(int(row["hosts_at_once"]) for row in at_once)) == (found.contended_ns, found.most)
    of_day = {int(row["hosts_at_once"]) for row in ask(capfd, ports_done, "contention", DATES[0])}
    assert of_day == {0, 1, 2, 3}, "a, b and c, whose port counts for it"
    recorded = {row["hosts"] for row in rows(ports_done, "contention") if row["rack"] == "r1"}
    assert max(recorded) == 4, "a, b, c and what is behind E2: the port of a counts no more"


def test_the_worst_ports_are_listed(ports_done: Path, capfd: pytest.CaptureFixture[str]) -> None:
    found = ask(capfd, ports_done, "13", DATES[0])
    names = ("rank", "port", "direction", "attached_host", "host_recorded", "bursts")
    assert [tuple(row[name] for name in names) for row in found] == [
        ("1", "E1", "out", "c", "false", "2"),
        ("2", "E0", "in", "a", "true", "1"),
        ("2", "E0", "out", "a", "true", "1"),
        ("4", "E2", "out", "", "", "1"),
    ]
    assert {row["device"] for row in found} == {"tor1"} and found[0]["recorded_ns"] == str(DAY // 2)
    assert [float(row["peak_utilization"]) for row in found] == [1.0] * 4


def test_pages_have_the_ports_and_the_hosts_that_only_ports_show(ports_done: Path, tmp_path: Path) -> None:
    """The page of the fleet names the racks; the page of a rack without ports has no section about ports."""
    assert main(["fleet", "report", str(ports_done), "--day", DATES[0], "-o", str(tmp_path)]) == 0
    pages = {path.stem: re.sub(r"<[^>]*>", " ", path.read_text("utf-8")) for path in tmp_path.rglob("*.html")}
    for stem, rack in ((f"fleet-{DATES[0]}", "r1 "), ("r1", "")):
        words = " ".join(pages[stem].split())
        assert (
            f"tor1 E1 {rack}to the host c eth0 (not recorded) " in words
            and f"tor1 E0 {rack}from the host a eth0 " in words
        )
        assert f"1 host recorded nothing of what it receives by these ports: c{' in rack r1' if rack else ''}." in words
        assert f"tor1 E2 {rack}to the host not known" in words
    assert "Switch ports" not in pages["r2"]
    answers = json.loads((tmp_path / f"fleet-{DATES[0]}.json").read_text())["answers"]
    assert answers["ports"]["count"] == 4 and answers["port_hosts"]["rows"] == [{"rack": "r1", "host": "c"}]


@pytest.fixture
def alone(tmp_path: Path) -> Path:
    """A target to which a collector shipped a day of two ports, without any host."""
    store = StoreFolder.create(tmp_path / "store")
    fill_ports(store, {"E0": [(50, 10)], "E1": [(55, 10)]}, length=DAY)
    fill_ports(store, {"E0": []}, start=START + DAY)
    ship(store, open_target(tmp_path / "target"), ShipSettings(own=HostName("r1", "collector")))
    return tmp_path / "target"


def test_a_rack_with_only_its_switch_recorded_has_results(
    alone: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    results = tmp_path / "results"
    words = ["fleet", "detect", str(alone), "-o", str(results), "--day", DATES[0], "--jobs", "1"]
    assert main(words) == 0
    out, err = capsys.readouterr()
    assert "2026-11-20 rack r1: 0 bursts, 2 of switch ports, " in err
    assert out.endswith("\n2 recordings of switch ports, 2 bursts in them\n")
    at_once: Counter[str] = Counter()
    for row in ask(capsys, results, "contention", DATES[0]):
        at_once[row["hosts_at_once"]] += int(row["ns"])
    assert at_once == {"0": DAY - 15 * MS, "1": 10 * MS, "2": 5 * MS}
    assert ask(capsys, results, "SELECT count(*) AS n FROM bursts", DATES[0]) == [{"n": "0"}]


@pytest.mark.parametrize("split", ["rack", "host"])
def test_neither_a_switch_nor_its_collector_is_a_missing_host(
    alone: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], split: str
) -> None:
    """The collector is listed, and makes the rack incomplete if it is behind; so does a switch of the inventory."""
    assert [(of.rack, of.host) for of in status(open_target(alone))] == [("r1", "collector")]
    of_switch = {"inventory": {HostOf("r1", "tor1")}}
    for number, (date, more, lacking) in enumerate(
        ((DATES[0], {}, set()), (DATES[1], {}, {"collector"}), (DATES[0], of_switch, {"tor1"}))
    ):
        results = tmp_path / str(number)
        found = detected(alone, results, DATES[0], date, split=split, **more)
        assert bool(found.incomplete) == bool(lacking)
        [covered] = ask(capsys, results, "coverage", date)
        assert (covered["hosts_expected"], covered["hosts_recorded"]) == ("0", "0")
        assert {row["host"] for row in rows(results, "incomplete")} == lacking
        assert (int(covered["behind_ns"]) > 0) == bool(lacking)


def test_ports_that_cannot_be_examined_are_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store = StoreFolder.create(tmp_path / "store")
    for start in (START, START + DAY + HOUR):
        fill(store, {"a": [(50, 10)]}, start=start, length=HOUR)
    row = {
        "recording_id": "p",
        "host": "tor1",
        "interface": "E0",
        "direction": "out",
        "backend": "otlp",
        "link_bps": None,
    }
    with store.writer("recordings", rack="r1") as writer:
        writer.append(
            rows_of("recordings", {**row, "start_ns": START, "end_ns": START + HOUR - 1, "written_ns": START})
        )
    target = shipped(store, tmp_path / "target")
    words = ["fleet", "detect", str(target), "--day", DATES[0], "--jobs", "1", "-o", str(tmp_path / "results")]
    assert main(words) == 0
    said = "1 recording of switch ports left out: line rate not known, or bins that do not make up --bin"
    assert said in capsys.readouterr().out
    [outcome] = detected(target, tmp_path / "host", DATES[0], split="rack").outcomes
    assert (outcome.bursts, outcome.switch_ports, outcome.unfit_ports) == (1, 0, 1)
    [given] = detected(target, tmp_path / "given", DATES[0], definition=BurstDefinition(link_bps=10**9)).outcomes
    assert (given.bursts, given.port_bursts, given.switch_ports, given.unfit_ports) == (1, 0, 1, 0)
    shipping = ship_bursts(store, open_target(tmp_path / "shipped"), ShipSettings("bursts"))
    assert [str(trouble) for trouble in shipping.troubles] == [f"host a in rack r1: {said}"]
    capsys.readouterr()
    assert main(["fleet", "report", str(tmp_path / "results"), "--day", DATES[0], "-o", str(tmp_path / "pages")]) == 0
    page = (tmp_path / "pages" / f"fleet-{DATES[0]}.html").read_text()
    assert "Recordings of switch ports are left out" in page and "2026-11-20 rack r1: 1 recording." in page


def test_results_of_an_mburst_without_ports_are_read_and_then_completed(
    ports_done: Path, ports_target: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(ports_done, tmp_path / "results")
    places = open_target(tmp_path / "results")
    for name in (RACK, RACK._replace(date=DATES[1])):
        facts = json.loads(places.get(name.record_key))
        facts.pop("unfit_ports")
        for table in PORT_TABLES:
            (tmp_path / "results" / name.key(table)).unlink()
            facts["rows"].pop(table)
            facts["sha256"].pop(table)
        places.replace(name.record_key, json.dumps(facts).encode())
    assert ask(capfd, tmp_path / "results", "switch_ports", DATES[0]) == []
    assert ask(capfd, tmp_path / "results", "worst_hosts", DATES[0])
    again = detected(ports_target, tmp_path / "results")
    assert [str(name) for name in again.done] == [f"{DATES[1]} rack r /3", f"{DATES[1]} rack r2"]
    assert files(tmp_path / "results") == files(ports_done)


def test_ports_count_once_although_their_collector_gets_another_name(
    ports_store: StoreFolder, ports_by_host: Path, tmp_path: Path
) -> None:
    """It states all files without a host again, as its own."""
    shutil.copytree(ports_store.path, tmp_path / "store")
    store, results = StoreFolder.open(tmp_path / "store"), tmp_path / "results"
    target = shipped(store, tmp_path / "target")
    detected(target, results, DATES[0], split="host", rack="r1")
    ship(store, open_target(target), ShipSettings(own=HostName("r1", "z")))
    detected(target, results, DATES[0], split="host", rack="r1")
    of_day = [row for row in rows(ports_by_host, "port_bursts") if row["date"] == DATES[0]]
    assert of_day and rows(results, "port_bursts") == of_day
    detected(target, tmp_path / "fresh", DATES[0], split="host", rack="r1")
    assert rows(tmp_path / "fresh", "port_bursts") == of_day


def test_rows_whose_receipts_are_gone_stay_until_their_record_is_removed(
    ports_done: Path, ports_target: Path, tmp_path: Path
) -> None:
    """A bucket may remove objects after some time. Ports that no longer exist then leave no row."""
    shutil.copytree(ports_done, tmp_path / "results")
    shutil.copytree(ports_target, tmp_path / "target")
    shutil.rmtree(tmp_path / "target" / "shipped" / "rack=r1" / "host=a")  # the host that ships the rows of switches
    detected(tmp_path / "target", tmp_path / "results", DATES[0])
    assert all(rows(tmp_path / "results", table) == rows(ports_done, table) for table in PORT_TABLES)
    for record in (tmp_path / "results" / "partitions").rglob(f"*{DATES[0]}*/**/*.json"):
        record.unlink()
    detected(tmp_path / "target", tmp_path / "results", DATES[0])
    assert {row["date"] for table in PORT_TABLES for row in rows(tmp_path / "results", table)} == {DATES[1]}
    assert {*rows(tmp_path / "results", "port_hours")[0]} == {*rows(ports_done, "port_hours")[0]}
