"""The causes that a fleet's results state for the late probes of each host equal those of `mburst investigate` over the
same time."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from fleetlib import DATES, detected, files, rows, shipped
from latency_cases import Setting, build
from latency_store import LANE, add_case
from racklib import DAY, HOUR, START, fill, fill_ports
from storelib import rows as rows_of
from storelib import write

from mburst.__main__ import main
from mburst.analysis.answers import memory
from mburst.analysis.bursts.find import BurstDefinition
from mburst.analysis.partition import investigated as investigating
from mburst.api.investigating import Investigation, investigated
from mburst.fleet.detect import MADE_OF_MORE
from mburst.fleet.results import PORT_TABLES, TABLES, PartitionName, read_record
from mburst.fleet.target import open_target
from mburst.sql import StoreFolder

S = 10**9
RACK = "r1"
# Scene of the probes of each host, its length in seconds, and its start: `cache` lies on both sides of midnight.
CASES = {
    "cache": ("incast", 16, START + DAY - 8 * S),
    "web": ("host", 8, START + 9 * HOUR - 4 * S),
    "quiet": ("harmless", 4, START + 20 * HOUR),
    "db": ("incast", 8, START + 5 * HOUR),
}
CAUSES = {"cache": "bursts", "web": "host", "quiet": "none", "db": "bursts"}
ADDRESS = "10.9.9.9"  # of db: the probes name it by this address
PER_SECOND = 1000 * 800 + 10_000 * 12  # memory that an investigation takes for probes and bins


def probed(folder: Path) -> StoreFolder:
    """Makes a store of two racks. Rack r1 has CASES, a host that no path names, and drops of the switch queues of two
    hosts; rack r2 has no probes."""
    store = StoreFolder.create(folder)
    for host, (kind, seconds, start) in CASES.items():
        case, lane = build(kind, 4, Setting(seconds=seconds)), {**LANE, "recording_id": host, "host": host}
        if host == "db":
            case = replace(case, scene=replace(case.scene, probes=replace(case.scene.probes, dst=ADDRESS)))
        add_case(store, case, lane={**lane, "rack": RACK}, origin=start, written_ns=start)
    out = {"recording_id": "db-out", "host": "db", "rack": RACK, "direction": "out"}
    write(store, "recordings", {**out, "start_ns": START, "end_ns": START + 10 * S, "written_ns": START})
    write(store, "bins", {**out, "ts_ns": START, "bytes": 60, "wire_bytes": 84})
    write(
        store, "sources", {**out, "ts_ns": START, "source": ADDRESS, "bytes": 60, "first_ns": START, "last_ns": START}
    )
    fill(store, {"idle": [(50, 10)]}, start=START)
    fill(store, {"other": [(50, 10)]}, start=START, rack="r2")
    fill_ports(store, {"E9": [(50, 10)]}, start=START)  # a port that no link attaches to a host
    add_queues(store)
    return store


def add_queues(store: StoreFolder) -> None:
    """Adds queue windows of 1 s for the ports of `cache` and `idle`, of which every third has drops."""
    behind = {"cache": START + DAY - 8 * S, "idle": START}
    links = [{"ts_ns": START, "host": host, "rack": RACK, "port": host, "queue": ""} for host in behind]
    with store.writer("links", rack=RACK) as writer:
        writer.append(rows_of("links", *({**link, "origin": "configuration", "present": True} for link in links)))
    windows = [
        {"window_start_ns": at + n * S, "ts_ns": at + (n + 1) * S, "port": port, "dropped_packets": 7 * (n % 3 == 0)}
        for port, at in behind.items()
        for n in range(8)
    ]
    with store.writer("queues") as writer:
        writer.append(rows_of("queues", *windows))


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> StoreFolder:
    return probed(tmp_path_factory.mktemp("probed") / "store")


@pytest.fixture(scope="module")
def target(store: StoreFolder, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return shipped(store, tmp_path_factory.mktemp("probed") / "target")


@pytest.fixture(scope="module")
def done(target: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The results of both days, by rack."""
    folder = tmp_path_factory.mktemp("probed") / "results"
    found = detected(target, folder, *DATES, with_verdicts=True, split="rack")
    assert not any(outcome.error for outcome in found.outcomes)
    return folder


def of_store(store: StoreFolder, row: dict[str, Any]) -> dict[str, Any]:
    """Returns what ROW should be, from an investigation of the whole store."""
    asked = {"hosts": [row["host"]], "rack": RACK, "since": row["start_ns"], "until": row["end_ns"]}
    answer = investigated(store, BurstDefinition(), **asked)
    facts, [path, *_] = Investigation(answer).to_dict(), answer.findings
    evidence, tail = facts["evidence"], facts["tail"]
    estimates = {
        "cause_share": evidence["shares"].get(facts["cause"]),
        "excess_share": evidence["excess_share_interval"],
        "relative_risk": evidence["relative_risk"],
    }
    return {
        **{"cause": facts["cause"], "summary": Investigation(replace(answer, others=[])).summary},
        **{name: tail[name] for name in ("n", "lost", "late", "measure", "p50_ns", "p99_ns", "p999_ns")},
        **{"threshold_ns": tail["threshold_ns"], "has_tail": tail["present"], "bursts": facts["bursts"]["count"]},
        **{"paths": len(facts["paths"]), "excess_ns": round(float(path.evidence.ledger.excess.sum()))},
        **dict(zip(("src", "dst", "protocol"), ("p", path.scene.probes.dst, "udp"), strict=True)),
        **{name + end: of and of[key] for name, of in estimates.items() for end, key in
           (("", "value"), ("_low", "low"), ("_high", "high"))},
    }  # fmt: skip


def told(row: dict[str, Any]) -> dict[str, Any]:
    """Returns a row without the columns that say to which host and time it belongs."""
    drop = ("date", "rack", "host", "start_ns", "end_ns", "interface", "direction")
    return {name: value for name, value in row.items() if name not in drop}


def test_verdicts_equal_those_of_the_whole_store(store: StoreFolder, done: Path) -> None:
    """This holds on each side of midnight, too. A host that no path names has no verdict."""
    found = rows(done, "verdicts")
    assert {row["host"]: row["cause"] for row in found} == CAUSES
    assert [row["date"] for row in found if row["host"] == "cache"] == [*DATES]
    for row in found:
        assert told(row) == of_store(store, row)
        assert (row["rack"], row["interface"], row["direction"]) == (RACK, "eth0", "in")
        assert (row["date"], row["end_ns"] - row["start_ns"]) == (DATES[row["start_ns"] > START], DAY)
        assert "crosses no recorded port" not in row["summary"], "of a port that another host recorded"
    sent = sum(row["n"] + row["lost"] for row in found if row["host"] == "cache")
    assert 15_990 < sent <= 16_000, "but those on their way when the recording ended"


def test_division_by_host_changes_no_verdict(target: Path, done: Path, tmp_path: Path) -> None:
    """The probes were shipped by a host other than those that they are about."""
    found = detected(target, tmp_path, DATES[0], with_verdicts=True, split="host")
    assert len(found.outcomes) == len(CASES) + 3 and not any(outcome.error for outcome in found.outcomes)
    by_rack = [row for row in rows(done, "verdicts") if row["date"] == DATES[0]]
    assert sorted(rows(tmp_path, "verdicts"), key=lambda row: row["host"]) == by_rack


def test_a_day_that_needs_too_much_memory_is_divided(
    store: StoreFolder, target: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If no part is small enough, the row says so."""
    monkeypatch.setattr(investigating, "HELD_BYTES", 5 * PER_SECOND)
    assert not any(of.error for of in detected(target, tmp_path, DATES[0], with_verdicts=True).outcomes)
    found: dict[str, list[dict[str, Any]]] = {host: [] for host in CASES}
    for row in rows(tmp_path, "verdicts"):
        found[row["host"]].append(row)
    parts = {host: [(row["start_ns"] - START, row["end_ns"] - START) for row in of] for host, of in found.items()}
    assert parts["web"] == [(6 * HOUR, 9 * HOUR), (9 * HOUR, 12 * HOUR)]
    assert parts["quiet"] == [(18 * HOUR, 21 * HOUR)]
    assert [end - start for host in ("cache", "db") for start, end in parts[host]] == [HOUR // 12, HOUR // 12]
    for row in [*found["web"], *found["quiet"]]:
        assert told(row) == of_store(store, row)
    for row in [*found["cache"], *found["db"]]:
        assert row["cause"] is None and row["summary"].startswith("Not investigated: the bins and probes take 7.3")


def test_verdicts_cost_nothing_where_they_are_not_wanted_or_there_are_no_probes(
    target: Path, done: Path, tmp_path: Path
) -> None:
    """No additional file is read, and only partitions that give verdicts are detected again."""
    results = tmp_path / "results"
    without = detected(target, results, DATES[0])
    assert not rows(results, "verdicts") and {of.rack for of in without.outcomes} == {RACK, "r2"}
    names = {rack: PartitionName(DATES[0], rack, None) for rack in (RACK, "r2")}
    place = open_target(results)
    before = {rack: read_record(place, name) for rack, name in names.items()}
    [outcome] = detected(target, results, DATES[0], with_verdicts=True).outcomes
    assert (outcome.rack, outcome.error) == (RACK, "")
    after = {rack: read_record(place, name) for rack, name in names.items()}
    assert before["r2"] == after["r2"] and before[RACK] and after[RACK]
    assert after[RACK].files == before[RACK].files + len(CASES) + 1, "the probes of each, of one on both days"
    wanted = {key: of for key, of in files(done).items() if f"date={DATES[0]}" in key}
    assert files(results) == wanted != {}
    assert {key.split("/")[0] for key in wanted} == {*TABLES, *PORT_TABLES}
    assert not detected(target, results, DATES[0]).outcomes, "what has verdicts has all the rest"


def test_verdicts_do_not_replace_bursts_of_files_that_cannot_be_read_now(target: Path, tmp_path: Path) -> None:
    """They are refused until the record is removed: without it, the day is detected in what can be read."""
    shutil.copytree(target, tmp_path / "target")
    more = StoreFolder.create(tmp_path / "more")
    fill(more, {"late": [(50, 10)]}, start=START, rack=RACK)
    shipped(more, tmp_path / "target")
    detected(tmp_path / "target", tmp_path / "results", DATES[0], rack=RACK)
    [receipt] = (tmp_path / "target" / "shipped" / f"rack={RACK}" / "host=late").iterdir()
    receipt.write_bytes(receipt.read_bytes() + b" ")
    asked = [detected(tmp_path / "target", tmp_path / "results", DATES[0], rack=RACK, with_verdicts=of)
             for of in (False, True)]  # fmt: skip
    record = PartitionName(DATES[0], RACK, None).record_key
    assert [[of.error for of in found.outcomes] for found in asked] == [[], [MADE_OF_MORE.format(record)]]
    assert "late" in {row["host"] for row in rows(tmp_path / "results", "bursts")}
    (tmp_path / "results" / record).unlink()
    detected(tmp_path / "target", tmp_path / "results", DATES[0], rack=RACK, with_verdicts=True)
    assert {row["host"] for row in rows(tmp_path / "results", "verdicts")} >= {*CASES}


def test_results_without_the_table_are_detected_again(target: Path, done: Path, tmp_path: Path) -> None:
    """An earlier mburst without verdicts made them, so they are detected again although nothing has arrived since."""
    shutil.copytree(done, tmp_path / "results")
    name, place = PartitionName(DATES[0], "r2", None), open_target(tmp_path / "results")
    facts = json.loads(place.get(name.record_key))
    for of in ("rows", "sha256"):
        facts[of].pop("verdicts")
    place.replace(name.record_key, json.dumps(facts).encode())
    [outcome] = detected(target, tmp_path / "results", DATES[0], with_verdicts=True).outcomes
    assert (outcome.rack, outcome.error) == ("r2", "") and files(tmp_path / "results") == files(done)


def test_damaged_probes_cost_their_partition(target: Path, tmp_path: Path) -> None:
    """This applies only if verdicts are wanted: bursts do not depend on probes."""
    shutil.copytree(target, tmp_path / "target")
    path = sorted((tmp_path / "target" / "probes").rglob("*.parquet"))[0]
    path.write_bytes(path.read_bytes()[:-1])
    found = detected(tmp_path / "target", tmp_path / "results", DATES[0], with_verdicts=True)
    errors = {outcome.rack: outcome.error for outcome in found.outcomes}
    assert errors["r2"] == "" and path.name in errors[RACK] and "SHA-256" in errors[RACK]
    [again] = detected(tmp_path / "target", tmp_path / "results", DATES[0]).outcomes
    assert (again.rack, again.error) == (RACK, "")


def test_a_task_without_memory_states_the_remedy(target: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "available_memory", lambda: 10**6)
    found = detected(target, tmp_path, DATES[0], with_verdicts=True, rack=RACK)
    [error] = [outcome.error for outcome in found.outcomes]
    assert "an investigation may take 600 kB (run fewer tasks at once, or give them more memory)" in error


def ask(results: Path, capfd: pytest.CaptureFixture[str], *words: str) -> list[dict[str, Any]]:
    assert main(["fleet", "ask", str(results), "switch_drops", *words, "--json"]) == 0
    found: list[dict[str, Any]] = json.loads(capfd.readouterr().out)
    return found


def test_question_12_lists_causes_with_drops(done: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Of two days it takes the one with more lateness; the cause of a host without probes is NULL."""
    both = ask(done, capfd, "--day", DATES[1], "--days", "2")
    assert {row["host"]: row["drops"] for row in both} == {"cache": 21, "idle": 21}
    verdicts = [row for row in rows(done, "verdicts") if row["host"] == "cache"]
    worst = max(verdicts, key=lambda row: row["excess_ns"])
    for row in both:
        wanted = worst if row["host"] == "cache" else {}
        assert {name: row[name] for name in ("cause", "excess_share", "summary")} == {
            name: wanted.get(name) for name in ("cause", "excess_share", "summary")
        }
    [first] = [row for row in ask(done, capfd, "--day", DATES[0]) if row["host"] == "cache"]
    assert first["cause"] == "bursts" and first["summary"] == verdicts[0]["summary"]


def test_pages_of_racks_have_verdicts(done: Path, tmp_path: Path) -> None:
    """Only pages of racks with verdicts show them."""
    assert main(["fleet", "report", str(done), "--day", DATES[0], "-o", str(tmp_path)]) == 0
    folder = tmp_path / f"fleet-{DATES[0]}"
    page, other = ((folder / f"{rack}.html").read_text("utf-8") for rack in (RACK, "r2"))
    facts = json.loads((folder / f"{RACK}.json").read_text("utf-8"))
    assert {row["host"]: row["cause"] for row in facts["verdicts"]["rows"]} == CAUSES
    assert [row["host"] for row in facts["verdicts"]["rows"]][-1] == "quiet", "those with late probes come first"
    assert "Why probes were late" in page and "Why probes were late" not in other
    assert "Bursts into cache (eth0, 1 Gb/s) cause the latency tail" in page
    assert main(["fleet", "report", str(done), "--day", DATES[1], "--days", "2", "-o", str(tmp_path / "both")]) == 0


@pytest.mark.skipif(not shutil.which("java"), reason="Spark needs Java: apt-get install openjdk-17-jre-headless")
def test_on_spark_verdicts_have_the_same_bytes(target: Path, done: Path, tmp_path: Path) -> None:
    pytest.importorskip("pyspark")
    from mburst.fleet.spark import on_spark

    light = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
    settings = {
        "spark.driver.extraJavaOptions": light,
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
    }
    engine = on_spark("local[2]", settings)
    [outcome] = detected(target, tmp_path, DATES[1], with_verdicts=True, rack=RACK, engine=engine).outcomes
    wanted = {key: of for key, of in files(done).items() if f"date={DATES[1]}/rack={RACK}/" in key}
    assert not outcome.error and files(tmp_path) == wanted != {}


def test_the_command_makes_verdicts(
    target: Path, done: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    words = ["fleet", "detect", str(target), "--day", DATES[0], "-o", str(tmp_path / "results"), "--jobs", "2"]
    assert main([*words, "--verdicts"]) == 0
    assert rows(tmp_path / "results", "verdicts") == [row for row in rows(done, "verdicts") if row["date"] == DATES[0]]
    assert "0 failed" in capfd.readouterr().out
