"""Level bursts: a host ships the detected bursts of its complete days, and a fleet of such hosts gives the same answers
as one that ships all rows."""

from __future__ import annotations

import json
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from fleetlib import DATES, HOSTS, detected, files, inside, of_whole, plain, rows, shipped
from racklib import DAY, HOUR, START, fill
from s3lib import BUCKET
from storelib import rows as rows_of
from storelib import sealed_files

from mburst.__main__ import main
from mburst.analysis.bursts.find import BurstDefinition
from mburst.errors import UsageError
from mburst.fleet.inventory import HostOf
from mburst.fleet.receipts import read_receipts
from mburst.fleet.results import TABLES, PartitionName
from mburst.fleet.ship import Shipped, ShipSettings, ship
from mburst.fleet.ship_bursts import ship_bursts
from mburst.fleet.status import status
from mburst.fleet.target import FleetTarget, TargetError, open_target
from mburst.sql import StoreFolder
from mburst.sql.format.filenames import SealedName
from mburst.sql.shipped import read_ledger

SETTINGS = ShipSettings("bursts")


@pytest.fixture(scope="module")
def arrived(fleet_store: StoreFolder, tmp_path_factory: pytest.TempPathFactory) -> FleetTarget:
    """The results into which all hosts of the small fleet have shipped bursts."""
    folder = tmp_path_factory.mktemp("arrived")
    shutil.copytree(fleet_store.path, folder / "store")
    target = open_target(folder / "results")
    assert sent(ship_bursts(StoreFolder.open(folder / "store"), target, SETTINGS)) > 0
    return target


@pytest.fixture
def small(tmp_path: Path) -> StoreFolder:
    """A store of two hosts with one complete day."""
    store = StoreFolder.create(tmp_path / "small")
    fill(store, {"a": [(50, 10)], "b": [(52, 10)]})
    fill(store, {"a": [], "b": []}, start=START + DAY + HOUR, length=HOUR)
    return store


@pytest.fixture
def target(tmp_path: Path) -> FleetTarget:
    return open_target(tmp_path / "results")


def host_of(path: Path) -> str:
    """Returns the host of a sealed file."""
    name = SealedName.parse(path.name)
    return name.segment.host if name else ""


def sent(done: Shipped) -> int:
    assert done.troubles == []
    return sum(host.sent for host in done.hosts)


def test_results_equal_those_of_a_fleet_that_ships_all_rows(
    fleet_store: StoreFolder, fleet_by_host: Path, arrived: FleetTarget
) -> None:
    """Results equal them to the byte, and equal those of one database to the row: with midnight, a burst of 90 s, and
    names of any letters."""
    assert files(Path(arrived.name)) == files(fleet_by_host)
    assert plain(rows(Path(arrived.name), "bursts")) == of_whole(fleet_store)


def test_a_second_call_ships_only_new_days(small: StoreFolder, target: FleetTarget) -> None:
    store = small
    first = sent(ship_bursts(store, target, SETTINGS))
    again = ship_bursts(store, target, SETTINGS)
    assert sent(again) == 0 and not any(host.receipts for host in again.hosts)
    fill(store, {"a": [(10, 5)]}, start=START + DAY + 3 * HOUR, length=HOUR)
    fill(store, {"a": []}, start=START + 2 * DAY + HOUR, length=HOUR)  # another day is complete
    more = ship_bursts(store, target, SETTINGS)
    assert sent(more) == len(TABLES) and {str(host.name) for host in more.hosts if host.sent} == {"host a in rack r1"}
    assert plain(rows(Path(target.name), "bursts")) == of_whole(store)
    shutil.rmtree(store.path / "shipped")  # a lost ledger costs a comparison
    lost = ship_bursts(store, target, SETTINGS)
    assert sent(lost) == 0 and sum(host.there for host in lost.hosts) == first + len(TABLES)


def test_an_incomplete_day_waits(tmp_path: Path, target: FleetTarget) -> None:
    """It waits until its end and 20 minutes more are sealed."""
    early = StoreFolder.create(tmp_path / "early")
    fill(early, {"h": [(50, 10)]}, start=START, length=DAY)
    [host] = ship_bursts(early, target, SETTINGS).hosts
    assert (host.sent, host.until_ns) == (0, START - DAY)  # its newest bin is in its tenth second
    fill(early, {"h": []}, start=START + DAY, length=HOUR)
    [host] = ship_bursts(early, target, SETTINGS).hosts
    assert (host.sent, host.until_ns) == (0, START)
    fill(early, {"h": []}, start=START + DAY + HOUR, length=HOUR)
    [host] = ship_bursts(early, target, SETTINGS).hosts
    assert (host.sent, host.until_ns) == (len(TABLES), START + DAY)


def test_files_of_switches_wait_for_every_host(tmp_path: Path, target: FleetTarget) -> None:
    """Compaction leaves them while the day of one host is not complete."""
    store, done = StoreFolder.create(tmp_path / "store"), START + 2 * DAY
    fill(store, {"a": [(50, 10)], "b": [(52, 10)]})
    fill(store, {"a": []}, start=done + HOUR, length=HOUR)
    link = {"ts_ns": START, "rack": "r1", "queue": "", "origin": "configuration", "present": True}
    with store.writer("links", rack="r1") as writer:
        writer.append(rows_of("links", *({**link, "host": host, "port": host} for host in "ab")))
    with store.writer("queues") as writer:
        writer.append(rows_of("queues", {"window_start_ns": START, "ts_ns": START + 10**9, "port": "b"}))
    [queues] = (path.relative_to(store.path).as_posix() for path in sealed_files(store, "queues"))
    for is_done in (False, True):
        sent(ship_bursts(store, target, SETTINGS))
        noted = read_ledger(next((store.path / "shipped").iterdir())).values()
        assert any(queues in keys for keys in noted) == is_done
        fill(store, {"b": []}, start=done + HOUR, length=HOUR)


def test_receipts_state_the_objects_that_arrived(arrived: FleetTarget) -> None:
    target = arrived
    found = list(read_receipts(target))
    assert {(receipt.rack, receipt.host) for receipt in found} == set(HOSTS)
    for receipt in found:
        assert receipt.level == "bursts" and receipt.definition is not None and receipt.missing == ()
        for file in receipt.files:
            assert len(target.get(file.key)) == file.bytes and target.holds(file.key, target.get(file.key))
    assert all(receipt.until_ns == START + 2 * DAY for receipt in found)


def test_status_allows_for_days_that_come_late(small: StoreFolder, target: FleetTarget) -> None:
    ship_bursts(small, target, ShipSettings("bursts", every_ns=HOUR))
    [receipt, *_] = read_receipts(target)
    for late, silent in ((DAY, False), (DAY + 2 * HOUR, False), (DAY + 3 * HOUR, True)):
        now = receipt.until_ns + late
        found = [of for of in status(target, now_ns=now) if not of.silent.startswith(("its clock", "no receipt"))]
        assert all(bool(of.silent) == silent for of in found)
    assert {of.level for of in status(target)} == {"bursts"}


def test_a_damaged_file_costs_only_its_days(small: StoreFolder, target: FleetTarget) -> None:
    store = small
    victim = next(path for path in sealed_files(store, "bins") if host_of(path) == "b")
    victim.write_bytes(victim.read_bytes()[:-9])
    done = ship_bursts(store, target, SETTINGS)
    assert done.troubles and all(str(victim) in str(trouble) for trouble in done.troubles)
    assert {row["host"] for row in rows(Path(target.name), "bursts")} == {"a"}
    [receipt] = [receipt for receipt in read_receipts(target) if receipt.host == "b"]
    assert receipt.files == () and all(str(victim) in line for line in receipt.missing)


@pytest.mark.parametrize("after", range(0, 18, 4))
def test_a_call_interrupted_at_any_request_is_completed_by_the_next(
    small: StoreFolder, target: FleetTarget, monkeypatch: pytest.MonkeyPatch, after: int
) -> None:
    """The same objects arrive as from one call."""
    store = small
    left = iter(range(after))

    def replace(self: Any, key: str, content: bytes) -> None:
        if next(left, None) is None:
            raise TargetError(f"{key}: no route to host")
        real(self, key, content)

    real = type(target).replace
    with monkeypatch.context() as broken:
        broken.setattr(type(target), "replace", replace)
        with pytest.raises(TargetError):
            ship_bursts(store, target, SETTINGS)
    ship_bursts(store, target, SETTINGS)
    assert plain(rows(Path(target.name), "bursts")) == of_whole(store)
    assert sent(ship_bursts(store, target, SETTINGS)) == 0


def test_targets_of_another_kind_are_refused(small: StoreFolder, tmp_path: Path, target: FleetTarget) -> None:
    store = small
    shipped(store, tmp_path / "all")
    with pytest.raises(UsageError, match="has rows of stores, and no results"):
        ship_bursts(store, open_target(tmp_path / "all"), SETTINGS)
    ship_bursts(store, target, SETTINGS)
    with pytest.raises(UsageError, match="has results, and no rows of stores"):
        ship(store, target, ShipSettings())
    with pytest.raises(UsageError, match="of another definition of bursts"):
        ship_bursts(store, target, ShipSettings("bursts", definition=BurstDefinition(threshold=0.9)))


def test_a_rack_that_was_detected_as_a_whole_is_left_alone(
    small: StoreFolder, tmp_path: Path, target: FleetTarget
) -> None:
    store = small
    detected(shipped(store, tmp_path / "all"), tmp_path / "results", DATES[0], split="rack")
    before = files(tmp_path / "results")
    done = ship_bursts(store, target, SETTINGS)
    assert any("is not divided by host" in str(trouble) for trouble in done.troubles)
    assert files(tmp_path / "results").items() >= before.items()


def test_both_levels_in_one_target(
    fleet_store: StoreFolder, fleet_done: Path, tmp_path: Path, target: FleetTarget, capfd: pytest.CaptureFixture[str]
) -> None:
    """Some hosts ship bursts to the results of the others. The answers, contention included, equal those of racks of
    which all hosts ship all rows. Switch rows are in the store of the others."""
    shutil.copytree(fleet_store.path, tmp_path / "store")
    store = StoreFolder.open(tmp_path / "store")
    half = StoreFolder.create(tmp_path / "half")
    for path in store.path.rglob("*.parquet"):
        if host_of(path) == "b":
            (half.path / path.relative_to(store.path)).parent.mkdir(parents=True, exist_ok=True)
            path.rename(half.path / path.relative_to(store.path))
    assert sealed_files(half, "bins")
    assert sent(ship_bursts(half, target, SETTINGS)) > 0
    detected(shipped(store, tmp_path / "all"), tmp_path / "results", *DATES)
    assert plain(rows(tmp_path / "results", "bursts")) == of_whole(store) + of_whole(half)
    for table in set(TABLES) - {"contention", "queue_drops"}:
        found, wanted = (sorted(map(repr, rows(of, table))) for of in (tmp_path / "results", fleet_done))
        assert found == wanted, table
    answers = []
    for place in (tmp_path / "results", fleet_done):
        assert main(["fleet", "ask", str(place), "contention", "--day", DATES[0], "--csv"]) == 0
        answers.append(capfd.readouterr().out)
    assert answers[0] == answers[1] and ",2," in answers[0]


def test_detection_leaves_days_a_host_ships_itself(small: StoreFolder, tmp_path: Path, target: FleetTarget) -> None:
    """A host that shipped all rows before, or that an inventory expects to ship: its day is not replaced by less."""
    shipped(small, tmp_path / "all")
    fill(small, {"a": [(50, 10)]}, start=START + DAY + 3 * HOUR, length=HOUR)
    fill(small, {"a": []}, start=START + 2 * DAY + HOUR, length=HOUR)
    sent(ship_bursts(small, target, SETTINGS))
    before = files(tmp_path / "results")
    for ship_all in (tmp_path / "all", tmp_path / "empty"):
        expected = {HostOf("r1", host) for host in "abc"}
        detected(ship_all, tmp_path / "results", DATES[1], inventory=expected)
        assert files(tmp_path / "results").items() >= before.items()
        lacking = {row["host"] for row in rows(tmp_path / "results", "incomplete")}
        assert lacking == {"b", "c"} and plain(rows(tmp_path / "results", "bursts")) == of_whole(small)


def test_detection_of_a_day_that_all_hosts_ship_themselves_has_nothing_to_do(
    small: StoreFolder, tmp_path: Path, target: FleetTarget, capfd: pytest.CaptureFixture[str]
) -> None:
    """They shipped all rows until another day before."""
    other = StoreFolder.create(tmp_path / "other")
    fill(other, {"a": [], "b": []}, start=START - DAY, length=HOUR)
    shipped(other, tmp_path / "all")
    sent(ship_bursts(small, target, SETTINGS))
    before = files(tmp_path / "results")
    words = ["fleet", "detect", str(tmp_path / "all"), "--day", DATES[0], "-o", target.name, "--jobs", "1"]
    assert main(words) == 0
    out, err = capfd.readouterr()
    assert f"{DATES[0]}: nothing to detect: all hosts ship their bursts of this day" in err
    assert out == f"{DATES[0]}: 0 partitions detected, 0 failed, 0 done before\n"
    assert files(tmp_path / "results") == before


def test_a_host_that_ships_its_bursts_while_its_rack_is_detected(
    small: StoreFolder, tmp_path: Path, target: FleetTarget, capfd: pytest.CaptureFixture[str]
) -> None:
    """No row counts twice, whichever is first; the next detection goes by host."""
    other = StoreFolder.create(tmp_path / "other")
    for start in (START, START + 2 * DAY):
        fill(other, {"x": [(50, 10)]}, start=start)
    shipped(other, tmp_path / "all")

    def meanwhile(*arguments: Any) -> Any:
        sent(ship_bursts(small, target, SETTINGS))
        return inside(*arguments)

    [outcome] = detected(tmp_path / "all", tmp_path / "results", DATES[0], engine=meanwhile).outcomes
    rack = PartitionName(DATES[0], "r1", None)
    assert "was detected meanwhile, so that rack r1 is divided by host" in outcome.error
    assert outcome.error.endswith(f"(remove {rack.plan_key}, and {rack.record_key} if it is there, and detect again)")
    assert not target.holds(rack.key("bursts"), b"")
    (tmp_path / "results" / rack.plan_key).unlink()
    [outcome] = detected(tmp_path / "all", tmp_path / "results", DATES[0]).outcomes
    assert (outcome.host, outcome.error) == ("x", "") and len(rows(tmp_path / "results", "bursts")) == 3


def test_rows_of_a_rack_that_is_divided_in_both_ways_count_once(
    small: StoreFolder, tmp_path: Path, target: FleetTarget, capfd: pytest.CaptureFixture[str]
) -> None:
    """As a detection and a host could leave them that write at the same instant."""
    shipped(small, tmp_path / "all")
    for split in ("host", "rack"):
        detected(tmp_path / "all", tmp_path / split, DATES[0], split=split)
        shutil.copytree(tmp_path / split, tmp_path / "results", dirs_exist_ok=True)
    assert main(["fleet", "ask", target.name, "SELECT count(*) AS n FROM bursts", "--day", DATES[0], "--csv"]) == 1
    out, err = capfd.readouterr()
    rack = PartitionName(DATES[0], "r1", None)
    assert out.split() == ["n", "2"] and err.count("would count twice: left out") == 2
    assert "rack r1 host a: its rack was detected as a whole, too, so" in err
    assert f"(remove {rack.record_key} and {rack.plan_key}, and detect again)" in err
    for key in (rack.record_key, rack.plan_key):
        (tmp_path / "results" / key).unlink()
    assert not detected(tmp_path / "all", tmp_path / "results", DATES[0]).outcomes
    assert main(["fleet", "ask", target.name, "1", "--day", DATES[0]]) == 0


def test_a_host_that_recorded_nothing_of_a_day_is_not_asked_for(
    small: StoreFolder, target: FleetTarget, capfd: pytest.CaptureFixture[str]
) -> None:
    """Once it has shipped a later day. Until then, its result of the day is missing."""
    fill(small, {"b": []}, start=START + 2 * DAY + HOUR, length=HOUR)
    sent(ship_bursts(small, target, SETTINGS))
    words = ["fleet", "ask", target.name, "1", "--day", DATES[1]]
    assert main(words) == 1 and f"{DATES[1]} rack r1 host a: not detected" in capfd.readouterr().err
    other = StoreFolder.create(small.path.parent / "other")
    for start in (START, START + 2 * DAY, START + 3 * DAY + HOUR):
        fill(other, {"c": [(50, 10)]}, start=start, length=HOUR)
    sent(ship_bursts(other, target, SETTINGS))
    assert main(words) == 1 and "host c" not in capfd.readouterr().err


def test_two_calls_of_level_bursts_at_once(small: StoreFolder, tmp_path: Path, target: FleetTarget) -> None:
    """Each call ships everything or leaves it to the other; the same objects arrive as from one call."""
    ship_bursts(small, open_target(tmp_path / "alone"), SETTINGS)
    shutil.rmtree(small.path / "shipped")
    with ThreadPoolExecutor(2) as pool:
        done = list(pool.map(lambda _: ship_bursts(small, open_target(target.name), SETTINGS), range(2)))
    assert sum(map(sent, done)) >= 2 * len(TABLES)
    assert files(Path(target.name)) == files(tmp_path / "alone")
    for receipt in read_receipts(target):
        assert all(target.sha256(file.key) == file.sha256 for file in receipt.files)
    assert sent(ship_bursts(small, target, SETTINGS)) == 0


def test_to_a_bucket(small: StoreFolder, s3: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store = small
    assert main(["ship", str(store.path), f"s3://{BUCKET}/bursts", "--level", "bursts", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["level"] == "bursts"
    there = open_target(f"s3://{BUCKET}/bursts")
    ship_bursts(store, open_target(tmp_path / "results"), SETTINGS)
    assert {key: there.get(key) for key in files(tmp_path / "results")} == files(tmp_path / "results")


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["--level", "bursts", "--tables", "bins"], "--tables is of the level all"),
        (["--threshold", "0.9"], "the definition of a burst is of the levels bursts and hot (add --level bursts"),
        (["--level", "some"], "invalid choice: 'some'"),
    ],
)
def test_wrong_arguments_of_level_bursts_are_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: list[str], expected: str
) -> None:
    assert main(["ship", str(tmp_path), str(tmp_path / "t"), *words]) == 2
    assert expected in capsys.readouterr().err
