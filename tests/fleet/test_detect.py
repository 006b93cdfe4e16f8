"""The results of a fleet equal those of one database over all rows, however the fleet is divided and whatever fails."""

from __future__ import annotations

import csv
import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from fleetlib import DATES, HOSTS, detected, files, inside, of_whole, plain, rows, shipped
from racklib import DAY, START, fill
from s3lib import BUCKET
from waiting import wait_for

from mburst.__main__ import main
from mburst.analysis.bursts.find import BurstDefinition
from mburst.errors import MburstError, UsageError
from mburst.fleet import planning, task
from mburst.fleet.detect import local
from mburst.fleet.inventory import HostOf, read_inventory
from mburst.fleet.receipts import read_receipts, write_receipt
from mburst.fleet.results import TABLES, PartitionName, read_record
from mburst.fleet.target import open_target
from mburst.sql import StoreFolder


@pytest.fixture
def target(fleet_target: Path) -> Path:
    return fleet_target


@pytest.fixture
def done(fleet_done: Path) -> Path:
    return fleet_done


def test_bursts_equal_those_of_one_database(fleet_store: StoreFolder, done: Path) -> None:
    """This includes bursts across midnight, and one that is longer than the first margin."""
    bursts = rows(done, "bursts")
    assert plain(bursts) == of_whole(fleet_store) and len(bursts) == 8
    assert {burst["date"] for burst in bursts if burst["host"] == "b"} == {DATES[0]}
    [long] = [burst for burst in bursts if burst["rack"] == "r2"]
    assert (long["date"], long["duration_ns"]) == (DATES[0], 90 * 10**9 - 4 * 10**6)
    assert sum(row["bursts"] for row in rows(done, "hours")) == len(bursts)
    assert len(rows(done, "senders")) == 3 * len(bursts)


def test_division_by_host_changes_no_result(target: Path, done: Path, fleet_by_host: Path) -> None:
    for table in set(TABLES) - {"contention"}:
        assert Counter(map(repr, rows(fleet_by_host, table))) == Counter(map(repr, rows(done, table))), table
    assert rows(done, "contention") and not rows(fleet_by_host, "contention"), (
        "of one host alone, it would read as a rack's"
    )
    with pytest.raises(UsageError, match="rack r /3 is divided by host on 2026-11-20"):
        detected(target, fleet_by_host, split="rack")
    assert not detected(target, fleet_by_host, split="auto").outcomes, "it goes on as it was divided"


def test_a_large_rack_is_divided(target: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = {of.rack: of.size for of in detected(target, tmp_path / "whole", DATES[0]).outcomes}
    monkeypatch.setattr(planning, "LARGE_BYTES", sizes["r1"] - 1)
    found = detected(target, tmp_path / "divided", DATES[0])
    partitions = {(outcome.rack, outcome.host) for outcome in found.outcomes}
    assert sizes["r1"] == max(sizes.values()) and partitions == {("r1", "a"), ("r1", "b"), ("r2", ""), ("r /3", "")}


def test_a_second_run_detects_only_new_partitions(target: Path, done: Path, tmp_path: Path) -> None:
    shutil.copytree(target, tmp_path / "target")
    shutil.copytree(done, tmp_path / "results")
    before = files(tmp_path / "results")
    again = detected(tmp_path / "target", tmp_path / "results", DATES[0])
    assert not again.outcomes and len(again.done) == 3
    more = StoreFolder.create(tmp_path / "more")
    fill(more, {"a": [(700, 4)]}, start=START + 3600 * 10**9, length=10**10, rack="r1")
    shipped(more, tmp_path / "target")
    [outcome] = detected(tmp_path / "target", tmp_path / "results", DATES[0]).outcomes
    assert (outcome.rack, outcome.bursts, outcome.error) == ("r1", 5, "")
    after = files(tmp_path / "results")
    assert after.keys() == before.keys()
    assert {key for key in after if after[key] != before[key] and "rack=r1" not in key} == set()


def spoil(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize(("damaged", "lacking"), [("bins", "recordings"), ("recordings", "bins")])
def test_a_damaged_file_costs_its_partition_and_is_named(
    target: Path, tmp_path: Path, damaged: str, lacking: str, capfd: pytest.CaptureFixture[str]
) -> None:
    """A missing file does the same, here in another rack. The third partition is detected."""
    shutil.copytree(target, tmp_path / "target")
    harmed = {
        "r1": (damaged, spoil, "damaged: the content does not have the SHA-256 that its receipt states"),
        "r2": (lacking, Path.unlink, "no such object"),
    }
    folder = tmp_path / "target"
    paths = {rack: sorted((folder / of[0]).rglob(f"rack={rack}/*.parquet"))[0] for rack, of in harmed.items()}
    for rack, (_, harm, _) in harmed.items():
        harm(paths[rack])
    words = ["fleet", "detect", tmp_path / "target", "--day", DATES[0], "-o", tmp_path / "results", "--jobs", "1"]
    assert main([*map(str, words), "--json"]) == 1
    found = json.loads(capfd.readouterr().out)
    errors = {of["rack"]: of["error"] for of in found["detected"] if of["error"]}
    assert errors.keys() == harmed.keys() and found["failed"] == 2 and len(found["detected"]) == 3
    for rack, (_, _, message) in harmed.items():
        assert paths[rack].name in errors[rack] and message in errors[rack]
    shutil.rmtree(tmp_path / "target")
    shutil.copytree(target, tmp_path / "target")
    assert main(list(map(str, words))) == 0
    out = capfd.readouterr().out
    assert "2026-11-20: 2 partitions detected, 0 failed, 1 done before" in out and out.count("\n") == 4


def test_a_plan_that_cannot_be_read_costs_its_partition(target: Path, tmp_path: Path) -> None:
    """On Spark, an exception would end the job after four attempts."""
    spoilt = []

    def spoiling(place: str, results: str, keys: list[str], progress: Any) -> Any:
        (tmp_path / keys[0]).write_text("{}")
        spoilt.append(keys[0])
        return inside(place, results, keys, progress)

    found = {of.name: of.error for of in detected(target, tmp_path, DATES[0], engine=spoiling).outcomes}
    assert len(found) == 3
    assert [name.plan_key for name, error in found.items() if "not the plan of a partition" in error] == spoilt
    assert list(found.values()).count("") == 2


def test_bins_without_their_recording_are_an_error(target: Path, tmp_path: Path) -> None:
    """They are not taken for a day without bursts."""
    shutil.copytree(target, tmp_path / "target")
    receipts = sorted((tmp_path / "target" / "shipped").rglob("*.json"))
    for path in receipts:
        facts = json.loads(path.read_text())
        facts["files"] = [file for file in facts["files"] if file["table"] != "recordings"]
        path.unlink()
        content = (json.dumps(facts, ensure_ascii=False, indent=0, sort_keys=True) + "\n").encode()
        (path.parent / f"{path.name[:17]}{hashlib.sha256(content).hexdigest()[:16]}.json").write_bytes(content)
    found = detected(tmp_path / "target", tmp_path / "results", DATES[0])
    assert all("no row of `recordings` for the bins of recording" in outcome.error for outcome in found.outcomes)
    assert len(found.outcomes) == 3 and not files(tmp_path / "results")


def test_hosts_that_are_behind_are_stated(target: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    expected = {HostOf("r1", "a"), HostOf("r1", "never"), HostOf("r9", "alone")}
    found = detected(target, tmp_path, DATES[0], inventory=expected)
    assert [str(name) for name in found.incomplete] == ["2026-11-20 rack r1", "2026-11-20 rack r9"]
    record = read_record(open_target(tmp_path), PartitionName(DATES[0], "r1", None))
    assert record and record.behind == {"never": None} and not record.complete and record.rows["bursts"] == 4
    lacking = {(row["rack"], row["host"]): row for row in rows(tmp_path, "incomplete")}
    assert set(lacking) == {("r1", "never"), ("r9", "alone")}
    assert lacking["r1", "never"]["behind_ns"] is None and lacking["r1", "never"]["day_ns"] == START
    assert main(["fleet", "ask", str(tmp_path), "worst_hosts", "--day", DATES[0]]) == 0
    assert capfd.readouterr().err.splitlines() == [
        f"mburst: {DATES[0]} rack {rack}: incomplete: when it was detected, not all had arrived: host {host}"
        for rack, host in (("r1", "never"), ("r9", "alone"))
    ]
    later = detected(target, tmp_path / "later", "2026-11-22")
    behind = {row["behind_ns"] for row in rows(tmp_path / "later", "incomplete")}
    assert behind and None not in behind and all(0 <= of <= DAY for of in behind)
    assert len(later.incomplete) == 3, "shipped until an hour of that day"
    names = {of["error"] for of in map(lambda outcome: outcome._asdict(), later.outcomes)}
    assert names == {""}


def test_a_damaged_receipt_makes_its_rack_incomplete(target: Path, done: Path, tmp_path: Path) -> None:
    """What it states is not known. What was detected with it before is not replaced by less."""
    shutil.copytree(target, tmp_path / "target")
    shutil.copytree(done, tmp_path / "done")
    [receipt] = (tmp_path / "target" / "shipped" / "rack=r1" / "host=b").iterdir()
    receipt.write_bytes(receipt.read_bytes() + b" ")
    heard: list[Exception] = []
    assert not detected(tmp_path / "target", tmp_path / "done", DATES[0], damaged=heard.append).outcomes
    assert files(tmp_path / "done") == files(done) and len(heard) == 1
    found = detected(tmp_path / "target", tmp_path / "fresh", DATES[0])
    assert [str(name) for name in found.incomplete] == ["2026-11-20 rack r1"]
    key = receipt.relative_to(tmp_path / "target").as_posix()
    lacking = {(row["host"], row["reason"]) for row in rows(tmp_path / "fresh", "incomplete")}
    assert lacking == {("b", "never shipped"), (None, f"{key}: a damaged receipt")}


def test_receipts_that_contradict_each_other_cost_their_rack(target: Path, tmp_path: Path) -> None:
    """What the file has is not known: it is named, and left out. Other racks are detected."""
    shutil.copytree(target, tmp_path / "target")
    place, heard = open_target(tmp_path / "target"), list[Exception]()
    [said, *_] = read_receipts(place, "r1", "a")
    [of, *_] = (file for file in said.files if file.table == "sources")
    write_receipt(place, said._replace(files=(of._replace(sha256="0" * 64),), written_ns=said.written_ns + 10**9))
    found = detected(tmp_path / "target", tmp_path / "results", DATES[0], damaged=heard.append)
    assert [(outcome.rack, outcome.error) for outcome in found.outcomes if outcome.error] == []
    assert len(heard) == 1 and f"{of.key}: receipts of host a state SHA-256" in str(heard[0])
    assert [str(name) for name in found.incomplete] == ["2026-11-20 rack r1"]
    assert {row["reason"] for row in rows(tmp_path / "results", "incomplete")} == {str(heard[0])}


def test_from_a_bucket_into_a_bucket(done: Path, target: Path, s3: None, tmp_path: Path) -> None:
    """The results have the same bytes; a second call detects nothing again."""
    there, into = open_target(f"s3://{BUCKET}/rows"), open_target(f"s3://{BUCKET}/results")
    for stored in open_target(target).list():
        there.put_new(stored.key, open_target(target).get(stored.key))
    words = ["fleet", "detect", there.name, "-o", into.name, "--rack", "r1", "--jobs", "1", "--scratch", str(tmp_path)]
    for _ in range(2):
        assert main([*words, "--day", DATES[0]]) == 0
    expected = {key: content for key, content in files(done).items() if f"/date={DATES[0]}/rack=r1/" in key}
    assert expected and {key: into.get(key) for key in expected} == expected
    assert list(tmp_path.iterdir()) == []


def test_an_inventory_is_a_csv_file(tmp_path: Path, capfd: pytest.CaptureFixture[str], target: Path) -> None:
    with (tmp_path / "hosts.csv").open("w", newline="") as file:
        csv.writer(file).writerows([["host", "service", "rack"], ["a", "cache", "r1"], ["x", "db", "r1"]])
    words = ["fleet", "detect", target, "--day", DATES[0], "-o", tmp_path / "results", "--rack", "r1", "--jobs", "1"]
    assert main([*map(str, words), "--inventory", str(tmp_path / "hosts.csv")]) == 0
    out, err = capfd.readouterr()
    assert "1 is incomplete, since not all has arrived" in out and "2026-11-20 rack r1: 4 bursts, " in err
    (tmp_path / "hosts.csv").write_text("rack;host\n")
    assert main([*map(str, words), "--inventory", str(tmp_path / "hosts.csv")]) == 2
    assert "hosts.csv: no columns rack and host" in capfd.readouterr().err


def test_an_inventory_has_each_column_once(tmp_path: Path) -> None:
    (tmp_path / "hosts.csv").write_text("rack,host,rack\nr1,a,r2\n")
    with pytest.raises(UsageError, match=r"hosts\.csv: two columns rack"):
        read_inventory(tmp_path / "hosts.csv")


@pytest.mark.parametrize(
    ("column", "known"),
    [
        ("From", "from"),
        ("fro m", "from"),
        ("form", "from"),
        ("untill", "until"),
        ("util", "until"),
        ("UNTIL_", "until"),
        ("services", "service"),
        ("adress", "address"),
        ("addresx", "address"),
    ],
)
def test_a_mistyped_column_of_an_inventory_is_refused(tmp_path: Path, column: str, known: str) -> None:
    (tmp_path / "hosts.csv").write_text(f"rack,host,{column}\nr1,a,\n")
    with pytest.raises(UsageError, match=rf"hosts\.csv: unknown column '{column}'") as error:
        read_inventory(tmp_path / "hosts.csv")
    assert error.value.hint == f"call it '{known}', or something else"


def test_a_mistyped_needed_column_of_an_inventory_is_refused(tmp_path: Path) -> None:
    (tmp_path / "hosts.csv").write_text("Rack,host\nr1,a\n")
    with pytest.raises(UsageError, match=r"hosts\.csv: unknown column 'Rack'"):
        read_inventory(tmp_path / "hosts.csv")


@pytest.mark.parametrize("column", ["cost", "rank", "Host", "device", "valid from", "floor", "frame", "umtill", ""])
def test_other_columns_of_an_inventory_are_ignored(tmp_path: Path, column: str) -> None:
    (tmp_path / "hosts.csv").write_text(f"rack,host,{column}\nr1,a,3\n")
    assert read_inventory(tmp_path / "hosts.csv") == {HostOf("r1", "a")}


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ("r1,a\n,b\n", "hosts.csv:3: no rack or no host"),
        ("r1,a\nr1\n", "hosts.csv:3: no rack or no host"),
        ("r1,a,web, of shops\n", "hosts.csv:2: more cells than columns"),
    ],
)
def test_no_line_of_an_inventory_is_silently_left_out(tmp_path: Path, lines: str, message: str) -> None:
    (tmp_path / "hosts.csv").write_text(f"rack,host,service\n{lines}")
    with pytest.raises(UsageError, match=message):
        read_inventory(tmp_path / "hosts.csv")


def test_an_inventory_may_have_blank_lines_and_cells(tmp_path: Path) -> None:
    (tmp_path / "hosts.csv").write_text("rack,host,service,floor\n\n r1, a ,,2\n,,,\nr1,b,web,\n")
    assert read_inventory(tmp_path / "hosts.csv") == {HostOf("r1", "a"), HostOf("r1", "b", "web")}


@pytest.mark.parametrize(
    ("address", "stored"),
    [
        ("2001:0DB8:0:0::1", "2001:db8::1"),
        ("::FFFF:10.0.0.1", "::ffff:10.0.0.1"),
        ("10.0.0.1/32", "10.0.0.1"),
        ("02-00-0A-00-00-01", "02:00:0a:00:00:01"),
    ],
)
def test_addresses_of_an_inventory_have_the_form_of_the_store(tmp_path: Path, address: str, stored: str) -> None:
    """Otherwise no sender would be found to have the service."""
    (tmp_path / "hosts.csv").write_text(f"rack,host,service,address\nr1,a,web,{address}\n")
    assert read_inventory(tmp_path / "hosts.csv") == {HostOf("r1", "a", "web", stored)}


@pytest.mark.parametrize(
    "address", ["10.0.0.0/24", "10.0.0.1/24", "a.example.com", "10.0.0.1 10.0.0.2", "fe80::1%eth0"]
)
def test_an_inventory_with_another_address_is_refused(tmp_path: Path, address: str) -> None:
    (tmp_path / "hosts.csv").write_text(f"rack,host,address\nr1,a,{address}\n")
    with pytest.raises(UsageError, match=r"hosts\.csv:2: invalid address"):
        read_inventory(tmp_path / "hosts.csv")


def test_results_have_one_definition(target: Path, done: Path, tmp_path: Path) -> None:
    shutil.copytree(done, tmp_path / "results")
    with pytest.raises(UsageError, match="has results of another definition of bursts: the default"):
        detected(target, tmp_path / "results", definition=BurstDefinition(threshold=0.9))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--day", "yesterday"], "invalid day 'yesterday' (examples: last, 2026-11-20)"),
        (["--day", "0001-01-01"], "invalid day '0001-01-01': not of the years 1970 to 2099 (examples"),
        (["--conf", "a=b"], "--conf is a setting of Spark"),
        (["--jobs", "0"], "invalid number of processes 0"),
        (["--master", "local[2]", "--jobs", "2"], "--jobs is of this machine"),
        (["--master", "local[2]", "--conf", "a"], "invalid setting 'a'"),
        (["--inventory", "none.csv"], "none.csv: cannot read: No such file or directory"),
        (["--threshold", "40"], "invalid share of line rate '40'"),
    ],
)
def test_wrong_arguments_of_detect_are_one_line(
    target: Path, tmp_path: Path, words: list[str], message: str, capfd: pytest.CaptureFixture[str]
) -> None:
    assert main(["fleet", "detect", str(target), "-o", str(tmp_path / "results"), *words]) in (1, 2)
    err = capfd.readouterr().err
    assert message in err and err.count("\n") == 1


def test_a_target_without_hosts_is_one_line(target: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["fleet", "detect", str(tmp_path / "none"), "-o", str(tmp_path / "results")]) == 1
    assert "none: no host has shipped here" in capfd.readouterr().err
    assert main(["fleet", "status", str(target), "--rack", "r9"]) == 1
    assert f"{target}: no host of rack r9 has shipped here" in capfd.readouterr().err
    assert not [*tmp_path.rglob("*.json")]


def test_results_are_no_target(target: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """No host could ship there any more."""
    shutil.copytree(target, tmp_path / "target")
    words = ["fleet", "detect", tmp_path / "target", "--day", DATES[0], "-o", tmp_path / "none" / ".." / "target"]
    (tmp_path / "none").mkdir()
    assert main([*map(str, words)]) == 2
    assert "target: has rows of stores, and no results (name another place for results)" in capfd.readouterr().err
    assert not (tmp_path / "target" / "mburst-results.json").exists()


def test_results_are_plain_files_with_signed_types(done: Path) -> None:
    """The rack of a row is in the path, as for every reader of such folders."""
    for key in files(done):
        schema = pq.read_schema(done / key)
        assert "rack" not in schema.names and not any(pa.types.is_unsigned_integer(field.type) for field in schema)
    assert {Path(key).parts[2] for key in files(done)} == {"rack=r1", "rack=r2", "rack=r%20%2F3"}
    assert len({tuple(key) for key in HOSTS}) == 4


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_detection_and_no_process_is_left(target: Path, done: Path, tmp_path: Path, number: int) -> None:
    (tmp_path / "scratch").mkdir()
    words = [
        "fleet",
        "detect",
        target,
        "--day",
        DATES[0],
        "-o",
        tmp_path / "results",
        "--scratch",
        tmp_path / "scratch",
    ]
    command = [sys.executable, "-m", "mburst", *map(str, words), "--split", "host", "--jobs", "1"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, process_group=0)
    wait_for(lambda: list((tmp_path / "scratch").glob("*/*")) or process.poll() is not None, "copies of files")
    os.killpg(process.pid, number)  # as a terminal does
    _, error = process.communicate(timeout=60)
    assert (process.returncode, error.splitlines()[-1]) == (130, "mburst: interrupted"), error
    assert "Traceback" not in error and not list((tmp_path / "scratch").iterdir())
    detected(target, tmp_path / "results", DATES[0], split="host")
    wanted = Counter(repr(row) for row in rows(done, "bursts") if row["date"] == DATES[0])
    assert Counter(map(repr, rows(tmp_path / "results", "bursts"))) == wanted and wanted


def test_an_exception_of_a_library_costs_only_its_partition(
    target: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = task.detect

    def failing(files: Any, *arguments: Any, **settings: Any) -> Any:
        if any("rack=r2" in str(path) for path in files["bins"]):
            raise RuntimeError("out of luck\nand more")
        return real(files, *arguments, **settings)

    monkeypatch.setattr(task, "detect", failing)
    found = detected(target, tmp_path, DATES[0])
    assert {outcome.rack: outcome.error for outcome in found.outcomes} == {
        "r1": "", "r2": "RuntimeError: out of luck", "r /3": "",
    }  # fmt: skip


def test_a_process_that_is_killed_costs_no_result(
    target: Path, done: Path, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Whichever process is killed, and at any time, the next call completes the rest and gives the same bytes."""
    scratch = tmp_path_factory.mktemp("scratch")

    def children() -> list[int]:
        task = Path(f"/proc/{os.getpid()}/task/{threading.get_native_id()}/children")
        found = [int(pid) for of in task.parent.parent.glob("*/children") for pid in of.read_text().split()]
        return [pid for pid in found if b"spawn_main" in Path(f"/proc/{pid}/cmdline").read_bytes()]

    errors: list[MburstError] = []

    def run() -> None:
        try:
            detected(target, tmp_path, DATES[0], engine=local(1, str(scratch)))
        except MburstError as error:
            errors.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    wait_for(lambda: list(tmp_path.glob("partitions/*/*/rack.json")) and children(), "a partition")
    for pid in children():
        os.kill(pid, signal.SIGKILL)
    thread.join()
    assert not errors or str(errors[0]) == "a process that detects bursts was killed"
    detected(target, tmp_path, DATES[0])
    assert files(tmp_path) == {key: of for key, of in files(done).items() if f"/date={DATES[0]}/" in key} != {}
