"""`mburst status` reports each fault with exit code 1, and nothing else as a fault."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from storelib import hot_logs, rows, sealed_files, write
from waiting import wait_for

from mburst.__main__ import main
from mburst.agent.config import load
from mburst.agent.delivery.ledger import FAILED, DeliveryKey, DeliveryLedger
from mburst.sql import StoreFolder, verified
from mburst.sql.format.filenames import COMPACTED
from mburst.sql.repair.changed import check_changed
from mburst.status import parts as status_of_parts
from mburst.status import store as status_of_store

SECOND, DAY = 10**9, 86_400 * 10**9
NOW = time.time_ns()
CLOCK = dict.fromkeys(("monotonic_raw_ns", "tai_offset_ns", "uncertainty_ns", "status", "max_error_ns"), 0)
Asked = Callable[..., tuple[int, dict[str, Any], str]]


@pytest.fixture(autouse=True)
def now(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stops the clock: a test may begin long after this file was imported."""
    monkeypatch.setattr(time, "time_ns", lambda: NOW)


@pytest.fixture
def ask(capsys: pytest.CaptureFixture[str]) -> Asked:
    """Returns the exit code, JSON and text of `mburst status`, after checking that they agree."""

    def run(*words: object) -> tuple[int, dict[str, Any], str]:
        codes = [main(["status", *map(str, words)])]
        text = capsys.readouterr().out
        codes.append(main(["status", "--json", *map(str, words)]))
        facts = json.loads(capsys.readouterr().out)
        assert codes == [1 if facts["unwell"] else 0] * 2 and facts["well"] == (codes[0] == 0)
        assert [line[8:] for line in text.splitlines() if line.startswith("unwell: ")] == facts["unwell"]
        assert text.endswith("\nwell\n") == facts["well"]
        return codes[0], facts, text

    return run


def recording(**more: Any) -> dict[str, Any]:
    """Returns a row of a recording of an interface that began an hour ago and runs."""
    begun = {"begun_ns": NOW - 3600 * SECOND, "start_ns": NOW - 3600 * SECOND, "written_ns": NOW - 3600 * SECOND}
    return {**begun, "boot_id": "", "complete": False, "ended": "", **more}


def store_of(folder: Path, *recordings: dict[str, Any], newest_ns: int = NOW) -> StoreFolder:
    """Returns a store whose interfaces all have a bin at NEWEST_NS."""
    store = StoreFolder.create(folder / "store")
    write(store, "recordings", *({"end_ns": newest_ns, **row} for row in recordings))
    bins = ({"recording_id": row.get("recording_id", "run-1"), "ts_ns": newest_ns} for row in recordings)
    write(store, "bins", *bins)
    return store


def test_an_empty_store_is_well(tmp_path: Path, ask: Asked) -> None:
    _, facts, text = ask(StoreFolder.create(tmp_path / "store").path)
    assert facts["well"] and facts["stores"][0]["interfaces"] == [] and "last sealed: never" in text


def test_a_running_recording_is_well(tmp_path: Path, ask: Asked) -> None:
    store = store_of(tmp_path, recording(), recording(recording_id="run-2", direction="out"))
    write(
        store,
        "gaps",
        *(
            {
                "start_ns": end - SECOND,
                "end_ns": end,
                "reason": "dropped",
                "packets": packets,
                "bytes": None,
                "detail": "",
            }
            for end, packets in ((NOW - 2 * DAY, 1000), (NOW - DAY // 2, 5), (NOW - SECOND, 2))
        ),
    )
    write(store, "probes", {"tx_ns": NOW - 7 * SECOND})
    code, facts, text = ask(store.path)
    assert code == 0
    into, out = facts["stores"][0]["interfaces"]
    assert (into["direction"], into["gaps"], into["missed_packets"], into["ended"]) == ("in", 2, 7, "")
    assert (out["direction"], out["gaps"], out["missed_packets"]) == ("out", 0, 0)
    assert facts["stores"][0]["newest_ns"] == {"probes": NOW - 7 * SECOND}
    assert "recording" in text and "newest of probes: " in text


@pytest.mark.parametrize("table, column", [("probes", "tx_ns"), ("queues", "ts_ns")])
def test_rows_from_the_future_are_not_well(tmp_path: Path, ask: Asked, table: str, column: str) -> None:
    """The clock of a prober or of a switch is wrong, and its end would go unnoticed."""
    store = store_of(tmp_path)
    begun = {"window_start_ns": NOW - SECOND} if table == "queues" else {}
    write(store, table, {column: NOW + 30 * SECOND, **begun})
    assert ask(store.path)[0] == 0
    write(store, table, {column: NOW + 2 * DAY, **begun})
    code, facts, _ = ask(store.path)
    assert code == 1 and facts["unwell"] == [f"{table}: the newest row is 2 d ahead of the clock here"]


def test_a_clock_that_was_ahead_once_does_not_hide_what_is_recorded_now(tmp_path: Path, ask: Asked) -> None:
    def begun(name: str, at_ns: int, **more: Any) -> dict[str, Any]:
        of = {"recording_id": name, "capture_id": name, "writer_id": name * 12, "begun_ns": at_ns, "start_ns": at_ns}
        return {**recording(), **of, "written_ns": at_ns, **more}

    ahead = begun("a", NOW + 3650 * DAY, end_ns=NOW + 3651 * DAY, ended="killed")
    store = store_of(tmp_path, ahead, begun("b", NOW - 9 * SECOND), newest_ns=NOW - SECOND)
    write(store, "clock", *({"ts_ns": NOW + at, "synchronized": True, **CLOCK} for at in (-SECOND, 3650 * DAY)))
    assert ask(store.path)[1]["unwell"] == []
    row = begun("b", NOW - 9 * SECOND, end_ns=NOW - SECOND, ended="stopped", complete=True)
    write(store, "recordings", {**row, "written_ns": NOW})
    assert [one["ended"] for one in ask(store.path)[1]["stores"][0]["interfaces"]] == ["stopped"]
    later = begun("c", NOW + 30 * DAY, end_ns=NOW + 30 * DAY + SECOND)
    write(store, "recordings", later)
    assert ask(store.path)[1]["unwell"] == ["cache-1 eth0 in: the newest data is 30 d ahead of the clock here"]


def gap(**more: Any) -> dict[str, Any]:
    """Returns a row of a gap of the last second whose packets are not known."""
    return {"start_ns": NOW - SECOND, "end_ns": NOW, "reason": "killed", "packets": None, "detail": "", **more}


@pytest.mark.parametrize(
    ("gaps", "missed", "unknown", "words"),
    [
        ([{"end_ns": None}], None, 1, "not known"),
        ([{"reason": "dropped", "start_ns": NOW - 9, "packets": 7}, {}], 7, 1, "at least 7"),
        ([{"packets": 0}, {"reason": "dropped", "start_ns": NOW - 9, "packets": 1234}], 1234, 0, "1,234"),
        ([{"start_ns": NOW - 3 * DAY, "end_ns": NOW - 2 * DAY}], 0, 0, "0"),
    ],
    ids=["not known", "some known", "known", "older"],
)
def test_an_unknown_number_of_missed_packets_is_not_0(
    tmp_path: Path, ask: Asked, gaps: list[dict[str, Any]], missed: int | None, unknown: int, words: str
) -> None:
    """Such gaps follow `--backend ebpf`. No answer states 0 for them."""
    store = store_of(tmp_path, recording())
    write(store, "gaps", *(gap(**one) for one in gaps))
    _, facts, text = ask(store.path)
    [found] = facts["stores"][0]["interfaces"]
    assert (found["missed_packets"], found["unknown_gaps"]) == (missed, unknown)
    assert next(line for line in text.splitlines() if line.startswith("r1")).endswith(f"  {words}")
    lane, scraped = ("r1", "cache-1", "eth0", "in"), metrics_of(store)
    assert scraped.get(("mburst_day_missed_packets", *lane)) == missed
    assert scraped["mburst_day_gaps_unknown", *lane] == unknown


def test_losses_without_a_known_direction_have_a_row(tmp_path: Path, ask: Asked) -> None:
    """It is known that packets were dropped, but not in which direction."""
    store = store_of(tmp_path, recording(), recording(recording_id="run-2", direction="out"))
    write(store, "gaps", gap(reason="dropped", direction="both", packets=5), gap(end_ns=None))
    _, facts, text = ask(store.path)
    found = facts["stores"][0]["interfaces"]
    names = ("direction", "gaps", "missed_packets", "unknown_gaps", "ended")
    both, into, out = ([one[name] for name in names] for one in found)
    assert (both, into, out) == (["both", 1, 5, 0, None], ["in", 1, None, 1, ""], ["out", 0, 0, 0, ""])
    assert facts["well"] and next(line for line in text.splitlines() if " both " in line).endswith("  5")
    assert metrics_of(store)["mburst_day_missed_packets", "r1", "cache-1", "eth0", "both"] == 5


@pytest.mark.parametrize(
    ("row", "newest_s", "expected"),
    [
        ({}, -20, None),
        ({}, -400, "cache-1 eth0 in: the recording has not ended, and has no data for 6.67 min"),
        ({}, 400, "cache-1 eth0 in: the newest data is "),
        ({"ended": "killed"}, -400, "cache-1 eth0 in: the recording broke off (killed) "),
        ({"ended": "failed"}, -400, "cache-1 eth0 in: the recording broke off (failed) "),
        ({"ended": "failed"}, -2 * 86_400, None),
        ({"ended": "stopped", "complete": True, "end_ns": NOW - 400 * SECOND}, -400, None),
        ({"boot_id": None}, -400, None),  # of a file
    ],
)
def test_recordings(tmp_path: Path, ask: Asked, row: dict[str, Any], newest_s: int, expected: str | None) -> None:
    newest_ns = NOW + newest_s * SECOND
    _, facts, _ = ask(store_of(tmp_path, recording(**row), newest_ns=newest_ns).path)
    assert len(facts["unwell"]) == (expected is not None)
    if expected:
        assert facts["unwell"][0].startswith(expected)


def test_an_old_recording_that_nobody_ended_hides_no_newer_one(tmp_path: Path, ask: Asked) -> None:
    """A store that was copied without its locks has one."""
    old = recording(
        recording_id="old", begun_ns=NOW - 9 * DAY, start_ns=NOW - 9 * DAY, end_ns=NOW - 8 * DAY, link_bps=10**9
    )
    times = {"begun_ns": NOW - 3 * DAY, "start_ns": NOW - 3 * DAY, "end_ns": NOW - 2 * DAY}
    new = recording(recording_id="new", ended="stopped", complete=True, link_bps=10**10, **times)
    _, facts, _ = ask(store_of(tmp_path, old, new, newest_ns=NOW - 2 * DAY).path)
    [found] = facts["stores"][0]["interfaces"]
    assert (found["ended"], found["link_bps"], facts["unwell"]) == ("stopped", 10**10, [])


def test_an_interface_without_packets_counts_as_recorded(tmp_path: Path, ask: Asked) -> None:
    store = store_of(tmp_path, recording(), newest_ns=NOW - 3600 * SECOND)
    assert ask(store.path)[0] == 1
    write(store, "clock", {"ts_ns": NOW, "synchronized": True, **CLOCK})
    assert ask(store.path)[0] == 0


def test_the_newest_recording_counts(tmp_path: Path, ask: Asked) -> None:
    begun = NOW - 30 * SECOND
    again = recording(recording_id="run-2", begun_ns=begun, start_ns=begun, written_ns=begun)
    assert ask(store_of(tmp_path, recording(ended="killed"), again).path)[0] == 0


def test_damage(tmp_path: Path, ask: Asked) -> None:
    store = store_of(tmp_path, recording())
    [file] = sealed_files(store, "bins")
    file.write_bytes(file.read_bytes()[:-9])
    _, facts, _ = ask(store.path)
    assert facts["stores"][0]["damaged_files"] == [str(file)]
    assert f"1 damaged file: `mburst check {store.path}` names them" in facts["unwell"]


@pytest.mark.parametrize("keep", [0, 3, -9, None])
def test_damage_of_an_older_day(tmp_path: Path, ask: Asked, keep: int | None) -> None:
    """The file is cut, or has its old length."""
    store = store_of(tmp_path, recording())
    write(store, "probes", {"tx_ns": NOW - 40 * DAY})
    [file] = sealed_files(store, "probes")
    content = file.read_bytes()
    file.write_bytes(content[:keep] if keep is not None else content[:20] + b"?" + content[21:])
    code, facts, _ = ask(store.path)
    assert code == 1 and facts["stores"][0]["damaged_files"] == [str(file)]
    assert main(["check", str(store.path)]) == 1


def test_a_foreign_file_is_damage_on_any_day(tmp_path: Path, ask: Asked) -> None:
    store = store_of(tmp_path, recording())
    write(store, "probes", {"tx_ns": NOW - 40 * DAY})
    stranger = sealed_files(store, "probes")[0].parent / "stranger.parquet"
    stranger.write_bytes(b"?")
    assert ask(store.path)[1]["stores"][0]["damaged_files"] == [str(stranger)]


def test_of_many_changed_files_the_newest_are_read_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = StoreFolder.create(tmp_path / "store")
    for age in range(4):
        write(store, "probes", {"tx_ns": NOW - age * DAY})
    files = sealed_files(store, "probes")
    cut, *_ = files
    for file in files:
        time.sleep(0.02)  # a tick of the clock of the file system
        os.utime(file)
    looked: list[Path] = []
    digest = verified.digest
    monkeypatch.setattr(verified, "digest", lambda path: looked.append(path) or digest(path))
    most = 2 * files[-1].stat().st_size + 9
    assert check_changed(store.path, most) == [] and sorted(looked) == sorted(files[-2:])
    cut.write_bytes(cut.read_bytes()[:-9])
    assert [damage.path for damage in check_changed(store.path, 0)] == [str(cut)], "its ends are read"
    looked.clear()
    assert [damage.path for damage in check_changed(store.path)] == [str(cut)]
    assert sorted(looked) == sorted(files[:2]), "the others are remembered"


def test_a_repaired_store_is_well(tmp_path: Path, ask: Asked) -> None:
    store = store_of(tmp_path, recording())
    write(store, "bins", {"ts_ns": NOW - SECOND})
    file = next(path for path in sealed_files(store, "bins") if f".{NOW - SECOND}-" in path.name)
    file.write_bytes(b"")
    assert ask(store.path)[0] == 1
    assert main(["repair", str(store.path)]) == 0
    assert ask(store.path)[0] == 0


def test_rows_that_stay_unsealed_are_reported(tmp_path: Path, ask: Asked) -> None:
    """The writer has appended to a log for longer than it keeps one. Logs of dead or slow writers are not reported."""
    store = StoreFolder.create(tmp_path / "store")
    with store.writer("probes") as writer:
        writer.append(rows("probes", {"tx_ns": NOW}))
        [log] = hot_logs(store, "probes")
        [begun_ns] = store.hot_logs()["probes"].values()
        later = begun_ns + 1801 * SECOND
        assert status_of_store.read(store, later).unwell() == []
        os.utime(log, ns=(later, later))
        assert status_of_store.read(store, later).unwell() == ["probes: rows are not sealed since 30 min"]


@pytest.mark.parametrize(
    ("free", "age_days", "full_in_days", "expected"),
    [
        (100.0, 2.0, 100.0, ""),
        (2.5, 2.0, 2.5, "the disk is full in 2.5 days, as the store grows"),
        (2.5, 0.5, 1.25, "the disk is full in 1.2 days, as the store grows"),  # as much in half a day as in a day
        (2.5, 0.01, None, ""),  # too young for an estimate
        (1.0, 2.0, 1.0, "the disk has 1 MB of 100 MB left"),
    ],
)
def test_the_disk(
    tmp_path: Path,
    ask: Asked,
    monkeypatch: pytest.MonkeyPatch,
    free: float,
    age_days: float,
    full_in_days: Any,
    expected: str,
) -> None:
    """The store grew by 1 MB in the last day, or in its life."""
    store = StoreFolder.create(tmp_path / "store")
    old, new = store.path / "mburst.json", store.path / "shipped"
    new.write_bytes(bytes(10**6 - (0 if age_days > 1 else old.stat().st_size)))
    for path in (old, store.path / "replaced" / "readers"):
        os.utime(path, ns=(NOW - int(age_days * DAY), NOW - int(age_days * DAY)))
    os.utime(new, ns=(NOW, NOW))
    monkeypatch.setattr(status_of_store, "_file_system", lambda store: (int(free * 10**6), 10**8))
    compacted = (
        f"-{NOW - 2 * DAY:020d}-0123456789ab-{COMPACTED}.0.c20.{NOW - 2 * DAY}-{NOW - DAY}.0123456789abcdef.parquet"
    )
    (store.path / compacted).write_bytes(bytes(10**6))  # in the place of files that were there
    os.utime(store.path / compacted, ns=(NOW, NOW))
    _, facts, _ = ask(store.path)
    disk = facts["stores"][0]["disk"]
    assert disk["day_bytes"] == 10**6 and disk["files"] == 4
    assert disk["full_in_days"] == (full_in_days and pytest.approx(full_in_days))
    for size, full in (("3M", None), ("1G", disk["full_in_days"])):  # 1 MB more, and more than the disk has
        path = configuration(tmp_path, f'[keep]\nstore = "{store.path}"\nevery = "1h"\nsize = "{size}"')
        [found] = ask(path)[1]["stores"]
        assert found["disk"]["full_in_days"] == full
    assert facts["unwell"] == ([expected] if expected else [])


def metrics_of(store: StoreFolder, config: Path | None = None) -> dict[tuple[str, ...], float]:
    """Returns the metrics of a scrape, by name and values of labels."""
    pytest.importorskip("prometheus_client")
    from mburst.agent.metrics.exporter import Exporter
    from mburst.agent.metrics.meter import Meter
    from mburst.analysis.bursts.find import BurstDefinition

    with closing(Meter(store, BurstDefinition(), 0)) as meter:
        samples = [sample for metric in Exporter(meter, config).collect() for sample in metric.samples]
    return {(sample.name, *sample.labels.values()): sample.value for sample in samples}


def test_metrics_have_the_same_facts(tmp_path: Path, ask: Asked) -> None:
    store = store_of(tmp_path, recording(), newest_ns=NOW - 400 * SECOND)
    write(store, "gaps", {"start_ns": NOW - 2, "end_ns": NOW - 1, "reason": "dropped", "packets": 5, "detail": ""})
    _, facts, _ = ask(store.path)
    disk, found = facts["stores"][0]["disk"], metrics_of(store)
    names = {"store_bytes": "store_bytes", "store_files": "files"}
    names |= {"store_day_bytes": "day_bytes", "disk_size_bytes": "disk_bytes"}
    assert {name: found[f"mburst_{name}",] for name in names} == {name: disk[fact] for name, fact in names.items()}
    assert found["mburst_disk_free_bytes",] == pytest.approx(disk["free_bytes"], rel=0.05)
    assert found["mburst_newest_sealed_file_timestamp_seconds",] == pytest.approx(disk["sealed_ns"] / 1e9)
    lane = ("r1", "cache-1", "eth0", "in")
    assert (found["mburst_day_gaps", *lane], found["mburst_day_missed_packets", *lane]) == (1, 5)
    assert found["mburst_unwell",] == len(facts["unwell"]) == 1
    assert not {"mburst_part_running", "mburst_store_limit_bytes"} & {name for name, *_ in found}


# --- of an mburst.toml ---


def configuration(folder: Path, *tables: str) -> Path:
    path = folder / "mburst.toml"
    path.write_text("\n".join([f'store = "{folder / "store"}"', *tables]))
    return path


METRICS = '[metrics]\nlisten = "127.0.0.1:0"'
REPORT = '[[report]]\nname = "daily"\nracks = ["r1"]\noutput = "{}"'


def unwell(path: Path, capsys: pytest.CaptureFixture[str]) -> list[str]:
    """Queries once: a part that is started again may run the second time."""
    main(["status", "--json", str(path)])
    found: list[str] = json.loads(capsys.readouterr().out)["unwell"]
    return found


def test_the_parts_of_a_file(tmp_path: Path, ask: Asked, capsys: pytest.CaptureFixture[str]) -> None:
    """The parts are real processes; a file with the same name elsewhere is another configuration."""
    StoreFolder.create(tmp_path / "store")
    path = configuration(tmp_path, METRICS + '\nconfig = "mburst.toml"', '[reflect]\nlisten = "127.0.0.1:0"')
    (tmp_path / "other").mkdir()
    other = configuration(tmp_path / "other", METRICS)
    StoreFolder.create(tmp_path / "other" / "store")
    command = [sys.executable, "-m", "mburst", "run", "mburst.toml", "--only", "metrics"]
    process = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        address = process.stdout.readline().rpartition(" ")[2].strip()
        with urllib.request.urlopen(address) as answer:  # the part has fewer rights than `mburst run`
            assert b'\nmburst_part_running{part="metrics"} 1.0' in answer.read()
        code, facts, text = ask(path)
        assert (code, facts["run"]["supervisor"]) == (0, process.pid)
        [part] = facts["run"]["parts"]
        assert part["name"] == "metrics" and 0 < part["age_ns"] < 60 * SECOND
        assert "metrics: runs for " in text
        os.kill(part["process"], signal.SIGSTOP)  # it is killed once it is no longer visible
        os.kill(part["process"], signal.SIGKILL)
        wait_for(lambda: unwell(path, capsys) == ["metrics does not run"], "a part that does not run")
        assert ask(other)[1]["unwell"] == [f"no process of `mburst run {other}` runs that user {os.geteuid()} can see"]
    finally:
        process.kill()
        process.communicate()


def test_recordings_without_a_rack_are_reported_as_not_shipped(
    tmp_path: Path, ask: Asked, capsys: pytest.CaptureFixture[str]
) -> None:
    """`mburst ship` reports this only on standard error, and continues."""
    store = store_of(tmp_path, recording(rack="unknown"))
    path = configuration(tmp_path, f'[ship]\ntarget = "{tmp_path}/fleet"\nevery = "1h"')
    refused = f"ship: host cache-1 in rack unknown of {store.path} is not shipped: a fleet needs names"
    assert refused in unwell(path, capsys)
    assert ask(path)[1]["ships"] == [{"name": "ship", "store": str(store.path), "refused": [refused[6:34]]}]


def test_a_process_that_only_started_the_supervisor_is_not_the_supervisor(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For example, sudo has the same command line. The command line of a part has the name of the file as it was
    given."""
    config = load(configuration(tmp_path, METRICS, REPORT.format(tmp_path / "reports")))
    monkeypatch.chdir(tmp_path)
    as_given = load(Path("mburst.toml"))
    running = {tuple(part.argv): (9, 10 * SECOND) for part in (*as_given.parts, *as_given.schedule)}
    monkeypatch.setattr(status_of_parts, "_supervisors", lambda: iter([(7, {}), (8, running)]))
    given = status_of_parts.RunCall("mburst.toml", config.path.resolve(), [])
    monkeypatch.setattr(status_of_parts, "_given", lambda supervisor: given)
    found = status_of_parts.read(config)
    assert found.supervisor == 8 and found.unwell() == []


def test_a_file_without_parts_and_a_folder_that_is_not_a_store(tmp_path: Path, ask: Asked) -> None:
    path = configuration(tmp_path, REPORT.format(tmp_path / "reports"))
    _, facts, _ = ask(path)
    assert any(line.startswith(f"{tmp_path / 'store'}: not an mburst store (") for line in facts["unwell"])
    assert main(["status", str(tmp_path / "nothing.toml")]) == 1


@pytest.mark.parametrize("begun_days", [0, 10])
def test_a_missing_report_is_reported(tmp_path: Path, ask: Asked, begun_days: int) -> None:
    """With all racks, these are the racks that were recorded before the period of the report ended."""
    begun = NOW - begun_days * DAY
    over = recording(begun_ns=begun, start_ns=begun, ended="stopped", complete=True, end_ns=begun + SECOND)
    store_of(tmp_path, over, newest_ns=begun)
    path = configuration(tmp_path, REPORT.format(tmp_path / "reports").replace('["r1"]', '"all"'))
    late = [line for line in ask(path)[1]["unwell"] if line.startswith("report")]
    now = time.gmtime(NOW // SECOND)
    is_due = now.tm_hour * 60 + now.tm_min > 70  # ten minutes and an hour after midnight
    assert bool(late) == (begun_days > 0) or not is_due
    if late:
        assert "no page of r1 is written" in late[0]
        assert main(["schedule", "--once", "daily", str(path)]) == 0
        assert [line for line in ask(path)[1]["unwell"] if line.startswith("report")] == []
        path.write_text(path.read_text().replace('"all"', '["r1", "r9"]'))
        [line] = [line for line in ask(path)[1]["unwell"] if line.startswith("report")]
        assert "no page of r9 is written" in line


def test_failed_deliveries_are_reported(tmp_path: Path, ask: Asked) -> None:
    StoreFolder.create(tmp_path / "store")
    (tmp_path / "reports").mkdir()
    path = configuration(tmp_path, REPORT.format(tmp_path / "reports"))
    with DeliveryLedger(tmp_path / "reports" / DeliveryLedger.NAME) as ledger:
        ledger.say(DeliveryKey("daily", NOW - DAY, NOW, "ops"), FAILED, "no route to host")
        _, facts, _ = ask(path)  # while another process delivers
    [trouble] = [line for line in facts["unwell"] if "delivered" in line]
    assert "was not delivered to ops" in trouble and "no route to host" in trouble


def test_an_unreadable_folder_is_not_taken_for_an_empty_one(tmp_path: Path, ask: Asked) -> None:
    """The other reports are checked nevertheless."""
    store_of(tmp_path, recording())
    (tmp_path / "file").touch()
    names = (REPORT.format(tmp_path / "file"), REPORT.format(tmp_path / "none").replace("daily", "other"))
    path = configuration(tmp_path, *names)
    _, facts, _ = ask(path)
    error = f"{tmp_path / 'file'}: cannot read the reports: Not a directory (check the folder and its rights)"
    assert error in facts["unwell"] and [report["name"] for report in facts["reports"]] == ["other"]
    found = metrics_of(StoreFolder.open(tmp_path / "store"), path)
    assert (found["mburst_status_errors",], found["mburst_unwell",]) == (1, len(facts["unwell"]))
    assert ("mburst_report_late", "other") in found and ("mburst_report_late", "daily") not in found


@pytest.mark.parametrize(("size", "is_over"), [("1k", True), ("1G", False)])
def test_a_store_above_its_size_limit_is_reported(tmp_path: Path, ask: Asked, size: str, is_over: bool) -> None:
    store = store_of(tmp_path / "store", recording())
    (store.path / "packets" / "cache-1" / "eth0").mkdir(parents=True)
    with (store.path / "packets" / "cache-1" / "eth0" / "0000000000-0000000000000000000.pcapng").open("wb") as ring:
        ring.truncate(2 * 10**9)
    path = configuration(tmp_path, f'[keep]\nstore = "{store.path}"\nevery = "1h"\nsize = "{size}"')
    _, facts, text = ask(path)
    [found] = facts["stores"]
    assert found["disk"]["size_limit"] == (1000 if is_over else 10**9) and "and 2 GB of packets; at most" in text
    assert found["disk"]["packets_bytes"] == 2 * 10**9 and found["disk"]["day_bytes"] < 10**6
    assert any("more than the 1 kB that [keep] gives it" in sentence for sentence in facts["unwell"]) == is_over


def test_metrics_of_a_file_have_the_same_facts(tmp_path: Path, ask: Asked) -> None:
    store = store_of(tmp_path, recording())
    (tmp_path / "reports").mkdir()
    keep = '[keep]\nevery = "1h"\nsize = "1k"'
    path = configuration(tmp_path, METRICS, keep, REPORT.format(tmp_path / "reports"))
    with DeliveryLedger(tmp_path / "reports" / DeliveryLedger.NAME) as ledger:
        ledger.say(DeliveryKey("daily", NOW - DAY, NOW, "ops"), FAILED, "no route to host")
    _, facts, _ = ask(path)
    found = metrics_of(store, path)
    assert found["mburst_unwell",] == len(facts["unwell"]) > 2
    assert found["mburst_part_running", "metrics"] == found["mburst_part_running", "keep"] == 0
    assert found["mburst_report_late", "daily"] == facts["reports"][0]["is_late"]
    assert (found["mburst_delivery_failures", "daily"], found["mburst_store_limit_bytes",]) == (1, 1000)
    path.write_text("[keep")
    found = metrics_of(store, path)
    assert (found["mburst_unwell",], found["mburst_status_errors",]) == (1, 1)


def test_metrics_of_one_store_count_faults_of_the_others(tmp_path: Path, ask: Asked) -> None:
    """A fault of a store counts once, whichever store the metrics are of."""
    store = store_of(tmp_path, recording())
    other = store_of(tmp_path / "other", recording(ended="killed"), newest_ns=NOW - 400 * SECOND)
    path = configuration(tmp_path, f'[keep]\nstore = "{other.path}"\nevery = "1h"', METRICS)
    _, facts, _ = ask(path)
    assert any("broke off (killed)" in sentence for sentence in facts["unwell"])
    assert [metrics_of(one, path)["mburst_unwell",] for one in (store, other)] == [len(facts["unwell"])] * 2


def test_a_store_under_two_names_counts_once(tmp_path: Path, ask: Asked) -> None:
    store = store_of(tmp_path, recording(ended="killed"), newest_ns=NOW - 400 * SECOND)
    (tmp_path / "link").symlink_to("store")
    path = configuration(tmp_path, f'[keep]\nstore = "{tmp_path / "link"}"\nevery = "1h"\nsize = "1k"', METRICS)
    _, facts, _ = ask(path)
    [found] = facts["stores"]
    assert found["disk"]["size_limit"] == 1000 and sum("broke off" in line for line in facts["unwell"]) == 1
    scraped = metrics_of(store, path)
    assert (scraped["mburst_unwell",], scraped["mburst_store_limit_bytes",]) == (len(facts["unwell"]), 1000)


EVERY_SCRAPE_LOOKS = """
import sys
from mburst.agent.metrics import conditions
from mburst.__main__ import command
conditions.LOOK_S = -1.0
sys.exit(command())
"""


def test_metrics_read_files_that_replaced_those_of_the_start(tmp_path: Path) -> None:
    """The process may read only what it needs (Landlock). This includes a configuration that is replaced by rename, one
    behind a link that is changed to another target (as in Kubernetes), and a folder in it that does not exist yet."""
    StoreFolder.create(tmp_path / "store")
    (tmp_path / "first").mkdir()
    (tmp_path / "second").mkdir()
    configuration(tmp_path / "first", METRICS, REPORT.format(tmp_path / "made" / "reports"))
    text = (tmp_path / "first" / "mburst.toml").read_text().replace(str(tmp_path / "first"), str(tmp_path))
    (tmp_path / "first" / "mburst.toml").write_text(text)
    (tmp_path / "mburst.toml").symlink_to("first/mburst.toml")

    def turn(text: str) -> None:
        (tmp_path / "second" / "mburst.toml").write_text(text)
        (tmp_path / "new").symlink_to("second/mburst.toml")
        (tmp_path / "new").rename(tmp_path / "mburst.toml")

    command = ["metrics", "store", "--listen", "127.0.0.1:0", "--config", "mburst.toml"]
    process = subprocess.Popen(
        [sys.executable, "-c", EVERY_SCRAPE_LOOKS, *command],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        address = process.stdout.readline().rpartition(" ")[2].strip()

        def scraped() -> list[str]:
            with urllib.request.urlopen(address) as answer:
                lines: list[str] = answer.read().decode().splitlines()
            return lines

        assert {"mburst_status_errors 0.0", 'mburst_part_running{part="metrics"} 0.0'} <= set(scraped())
        turn(f'{text}\n[reflect]\nlisten = "127.0.0.1:0"')
        assert {"mburst_status_errors 0.0", 'mburst_part_running{part="reflect"} 0.0'} <= set(scraped())
        (tmp_path / "made" / "reports").mkdir(parents=True)
        with DeliveryLedger(tmp_path / "made" / "reports" / DeliveryLedger.NAME) as ledger:
            for to in ("ops", "sales"):
                ledger.say(DeliveryKey("daily", NOW - DAY, NOW, to), FAILED, "no route to host")
        lines = {"mburst_status_errors 0.0", 'mburst_delivery_failures{report="daily"} 2.0'}
        assert lines <= set(scraped())
        turn("[keep")
        assert "mburst_status_errors 1.0" in scraped() and "mburst_status_errors 1.0" in scraped()
    finally:
        process.terminate()
        _, errors = process.communicate()
    assert errors.count("invalid TOML") == 1 and len(errors.splitlines()) == 1
