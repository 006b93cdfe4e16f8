"""`mburst status` reports each fault with exit code 1, and nothing else as a fault."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pytest
from statuslib import CLOCK, DAY, NOW, SECOND, Asked, ask, configuration, metrics_of, now, recording, store_of
from storelib import hot_logs, rows, sealed_files, write

from mburst.__main__ import main
from mburst.sql import StoreFolder, locks, verified
from mburst.sql.format.filenames import COMPACTED
from mburst.sql.repair.changed import check_changed
from mburst.status import store as status_of_store

__all__ = ["ask", "now"]


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


@pytest.mark.parametrize("took_s", [9, 90])
def test_data_that_come_while_the_store_is_verified_are_not_ahead(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ask: Asked, took_s: int
) -> None:
    """The verification takes minutes of a large store, or on a busy machine."""
    store = store_of(tmp_path, recording(), newest_ns=NOW - SECOND)
    clock, connect = [NOW], StoreFolder.connect

    def slow(self: StoreFolder, *given: Any, **named: Any) -> Any:
        clock[0] += took_s * SECOND
        write(store, "recordings", recording(end_ns=clock[0] - SECOND, written_ns=clock[0] - SECOND))
        write(store, "probes", {"tx_ns": clock[0] - SECOND})
        return connect(self, *given, **named)

    monkeypatch.setattr(time, "time_ns", lambda: clock[0])
    monkeypatch.setattr(StoreFolder, "connect", slow)
    code, facts, text = ask(store.path)
    assert (code, facts["unwell"]) == (0, []) and "newest of probes: 0 ns ago" in text
    assert not any(
        " in " in line for line in text.splitlines() if line.startswith(("r1 ", "newest")) and "ago" not in line
    )


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


def test_a_second_recorder_that_stops_does_not_hide_the_first(tmp_path: Path, ask: Asked) -> None:
    times = {"begun_ns": NOW - 900 * SECOND, "start_ns": NOW - 900 * SECOND, "end_ns": NOW - 120 * SECOND}
    second = recording(recording_id="second", ended="stopped", complete=True, **times)
    for newest_s, words in ((2, None), (50, None), (75, "the recording has not ended, and has no data for 1.25 min")):
        store = store_of(tmp_path / str(newest_s), recording(), second, newest_ns=NOW - newest_s * SECOND)
        unwell = ask(store.path)[1]["unwell"]
        assert unwell == ([f"cache-1 eth0 in: {words}"] if words else [])
        assert ask(store.path)[1]["stores"][0]["interfaces"][0]["ended"] == ""


@pytest.mark.parametrize("came", [True, False], ids=["quiet for minutes", "no packet"])
def test_a_second_recorder_that_ended_later_does_not_hide_a_first_that_runs(
    tmp_path: Path, ask: Asked, came: bool
) -> None:
    """The second one has newer packets, but the first holds its lock."""
    begun = NOW - 900 * SECOND
    of = {"recording_id": "first", "capture_id": "c" * 12, "writer_id": "d" * 12}
    first = recording(**of, start_ns=NOW - 3600 * SECOND if came else None)
    times = {"begun_ns": begun, "start_ns": begun, "end_ns": NOW - 120 * SECOND}
    second = recording(recording_id="second", ended="finished", complete=True, **times)
    store = store_of(tmp_path, second, newest_ns=NOW - 120 * SECOND)
    if came:
        write(store, "recordings", {**first, "end_ns": NOW - 1800 * SECOND})
    lock = locks.acquire(store.path, "c" * 12)
    assert lock is not None
    lock.begin({"rows": rows("recordings", {**first, "start_ns": None, "end_ns": None}).to_pylist()})
    write(store, "clock", {"ts_ns": NOW - SECOND, "synchronized": True, **CLOCK})
    [found] = ask(store.path)[1]["stores"][0]["interfaces"]
    assert (found["ended"], found["newest_ns"]) == ("", NOW - SECOND)
    lock.leave()
    assert ask(store.path)[1]["stores"][0]["interfaces"][0]["ended"] == "finished"


def test_an_interface_without_packets_counts_as_recorded(tmp_path: Path, ask: Asked) -> None:
    store = store_of(tmp_path, recording(), newest_ns=NOW - 3600 * SECOND)
    assert ask(store.path)[0] == 1
    write(store, "clock", {"ts_ns": NOW, "synchronized": True, **CLOCK})
    assert ask(store.path)[0] == 0


@pytest.mark.parametrize("came", [[], ["in"]], ids=["no packet", "one direction"])
@pytest.mark.parametrize("before", [None, "killed"])
def test_a_recording_under_way_without_packets_is_the_newest(
    tmp_path: Path, ask: Asked, before: str | None, came: list[str]
) -> None:
    """Its rows are in its lock until packets come. It was the one before it that was shown, as if it had ended now."""
    sides = ("in", "out")
    old = {"ended": before, "begun_ns": NOW - 9 * DAY, "start_ns": NOW - 9 * DAY}
    former = [recording(recording_id=side, direction=side, **old) for side in sides if before]
    store = store_of(tmp_path, *former, newest_ns=NOW - 4 * SECOND)
    of = {"capture_id": "c" * 12, "writer_id": "d" * 12, "start_ns": None}
    new = [recording(recording_id=f"new-{side}", direction=side, **of) for side in sides]
    write(store, "recordings", *(row for row in new if row["direction"] in came))
    write(store, "clock", {"ts_ns": NOW - SECOND, "synchronized": True, **CLOCK})
    lock = locks.acquire(store.path, "c" * 12)
    assert lock is not None
    lock.begin({"rows": rows("recordings", *new).to_pylist()})
    _, facts, _ = ask(store.path)
    found = {one["direction"]: (one["ended"], one["newest_ns"]) for one in facts["stores"][0]["interfaces"]}
    assert found == dict.fromkeys(sides if before or not came else came, ("", NOW - SECOND)) and facts["well"]
    lock.leave()
    states = [one["ended"] for one in ask(store.path)[1]["stores"][0]["interfaces"]]
    assert states == ["" if side in came else before for side in sides if before or side in came]


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


def test_files_that_were_set_aside_are_stated_with_their_size(tmp_path: Path, ask: Asked) -> None:
    """Nothing removes them: as long as they are there, their time is known to be missing."""
    store = store_of(tmp_path, recording())
    assert "set aside" not in ask(store.path)[2]
    [file] = sealed_files(store, "bins")
    file.write_bytes(b"x" * 70_000)
    assert main(["repair", str(store.path)]) == 0
    _, facts, text = ask(store.path)
    disk = facts["stores"][0]["disk"]
    assert (disk["aside_files"], disk["aside_bytes"], facts["well"]) == (1, 70_000, True)
    [line] = [line for line in text.splitlines() if line.startswith("set aside")]
    assert line.startswith(f"set aside by `mburst repair`: 1 file in {store.path}/damaged, 70 kB: ")


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
        (2.5, 0.05, 0.125, "the disk is full in 3 h, as the store grows"),
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


@pytest.mark.parametrize(
    ("days", "expected"),
    [
        (0.0, "full now"),
        (1e-12, "full within a minute"),
        (0.01, "full in 14.4 min"),
        (0.99, "full in 23.8 h"),
        (0.9999, "full in 1.0 days"),
        (1.0, "full in 1.0 days"),
    ],
)
def test_when_a_disk_is_full(days: float, expected: str) -> None:
    assert status_of_store.full_in(days) == expected
