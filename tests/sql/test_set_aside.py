"""Rows in files that `mburst repair` set aside stay known as missing: answers over their time say so, and do not count
it as idle."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from storelib import sealed_files, write
from test_checking import T0, flip, left_hot

import mburst
from mburst.__main__ import main
from mburst.analysis.bursts.find import BurstDefinition
from mburst.analysis.cause.read import Question, read_port, read_recordings
from mburst.analysis.model.losses import CaptureLoss
from mburst.sql import StoreFolder
from mburst.sql.damage import SET_ASIDE, damaged_files
from mburst.sql.format.filenames import new_writer
from mburst.sql.named import prepare
from mburst.sql.repair.checking import check
from mburst.sql.repair.repair import repair
from mburst.sql.verified import remember

SECOND, DAY = 10**9, 86_400 * 10**9
WRITER = "0123456789ab"
RUN = {"writer_id": WRITER, "bin_ns": SECOND}


@pytest.fixture
def store(tmp_path: Path) -> StoreFolder:
    """A store with a recording of 30 s whose bins are in three files of 10 s each, a packet a second."""
    made = StoreFolder.create(tmp_path / "store")
    for part in range(3):
        seconds = range(part * 10, part * 10 + 10)
        bins = [{"ts_ns": T0 + at * SECOND, "bytes": 100, "wire_bytes": 124, "packets": 1} for at in seconds]
        write(made, "bins", *bins, writer_id=WRITER)
    write(made, "sources", {"ts_ns": T0, "bytes": 3000, "packets": 30, "first_ns": T0, "last_ns": T0}, writer_id=WRITER)
    totals = {"packets": 30, "bytes": 3000, "wire_bytes": 3720, "start_ns": T0, "end_ns": T0 + 30 * SECOND - 1}
    write(made, "recordings", {**totals, **RUN}, writer_id=WRITER)
    return made


def in_order(store: StoreFolder, table: str = "bins") -> list[Path]:
    """Returns the sealed files of TABLE, those with the oldest rows first."""
    return sorted(sealed_files(store, table), key=lambda path: path.name.split(".")[3])


def lose(store: StoreFolder, path: Path) -> Path:
    """Damages the file at PATH and repairs the store; returns where the file is then."""
    flip(path, 30)
    list(repair(store.path))
    return store.path / "damaged" / path.relative_to(store.path)


def spans(store: StoreFolder, view: str = "coverage") -> list[tuple[int, int]]:
    """Returns when something was recorded, in seconds from T0."""
    rows = store.connect().execute(f"SELECT start_ns, end_ns FROM {view} ORDER BY ALL").fetchall()
    return [((start - T0) // SECOND, (end - T0) // SECOND) for start, end in rows]


@pytest.mark.parametrize("table", ["bins", "sources", "recordings"])
def test_a_file_that_was_set_aside_is_reported_like_before_the_repair(store: StoreFolder, table: str) -> None:
    path = in_order(store, table)[0]
    flip(path, 30)
    [before] = damaged_files(store.connect())
    list(repair(store.path))
    [after] = damaged_files(store.connect())
    assert after.facts() == {**before.facts(), "path": after.path, "reason": SET_ASIDE}
    assert after.path == str(store.path / "damaged" / path.relative_to(store.path))
    assert str(after) == f"{after.path}: set aside by `mburst repair` (missing: {before.missing()})"


def test_other_times_and_racks_are_not_affected(store: StoreFolder) -> None:
    lose(store, in_order(store)[1])
    assert len(damaged_files(store.connect("r1", T0, T0 + DAY))) == 1
    assert damaged_files(store.connect("r2")) == []
    assert damaged_files(store.connect(since_ns=T0 + DAY)) == []
    assert damaged_files(store.connect(until_ns=T0 - DAY)) == []


@pytest.mark.parametrize("repaired", [False, True])
@pytest.mark.parametrize(
    ("lost", "left"), [([0], [(10, 30)]), ([1], [(0, 10), (20, 30)]), ([0, 1], [(20, 30)]), ([0, 1, 2], [])]
)
def test_time_with_missing_bins_does_not_count_as_recorded(
    store: StoreFolder, lost: list[int], left: list[tuple[int, int]], repaired: bool
) -> None:
    for path in [in_order(store)[number] for number in lost]:
        flip(path, 30)
    if repaired:
        list(repair(store.path))
    assert spans(store) == spans(store, "recorded") == left


def test_bins_of_another_recorder_at_that_time_are_not_missing(store: StoreFolder) -> None:
    other = new_writer()
    run = {
        "recording_id": "run-2",
        "interface": "eth1",
        "capture_id": "capture-2",
        "writer_id": other,
        "bin_ns": SECOND,
    }
    write(store, "bins", {**run, "ts_ns": T0 + 15 * SECOND}, writer_id=other)
    write(store, "recordings", {**run, "packets": 1, "start_ns": T0, "end_ns": T0 + 30 * SECOND - 1}, writer_id=other)
    lose(store, next(path for path in in_order(store) if WRITER in path.name and f".{T0 + 10 * SECOND}-" in path.name))
    rows = store.connect().execute("SELECT interface, start_ns - $1, end_ns - $1 FROM coverage ORDER BY ALL", [T0])
    times = [(name, start // SECOND, end // SECOND) for name, start, end in rows.fetchall()]
    assert times == [("eth0", 0, 10), ("eth0", 20, 30), ("eth1", 0, 30)]


def test_a_duplicate_or_a_foreign_file_removes_no_recorded_time(store: StoreFolder) -> None:
    path = in_order(store)[1]
    copy = store.path / "bins" / "date=mixed" / "rack=r1" / path.name
    copy.parent.mkdir(parents=True)
    shutil.copy(path, copy)
    path.with_name("stranger.parquet").write_bytes(b"?")
    for count in (2, 1):
        assert len(damaged_files(store.connect())) == count and spans(store) == [(0, 30)]
        list(repair(store.path))


def test_a_damaged_log_of_another_table_is_named(store: StoreFolder) -> None:
    log = left_hot(store)
    flip(log, log.stat().st_size // 2)
    other = log.parents[1] / "sources" / log.name
    other.parent.mkdir(exist_ok=True)
    log.rename(other)
    tables = {file.table for file in damaged_files(store.connect())}
    assert "bins" in tables
    list(repair(store.path))
    assert {file.table for file in damaged_files(store.connect())} == tables


def test_dropped_packets_count_once_whatever_is_missing(store: StoreFolder) -> None:
    totals = {"packets": 30, "start_ns": T0, "end_ns": T0 + 30 * SECOND - 1, **RUN}
    write(store, "recordings", {**totals, "dropped": 7, "late": 3, "written_ns": 2 * 10**18}, writer_id=WRITER)
    lose(store, in_order(store)[1])
    assert store.connect().execute("SELECT sum(dropped), sum(late) FROM recorded").fetchall() == [(7, 3)]


def test_a_file_that_was_restored_is_not_missing(store: StoreFolder) -> None:
    path = in_order(store)[1]
    content = path.read_bytes()
    lose(store, path)
    path.write_bytes(content)
    assert damaged_files(store.connect()) == [] and spans(store) == [(0, 30)]


def test_a_duplicate_that_was_set_aside_is_not_missing(store: StoreFolder) -> None:
    path = in_order(store)[1]
    copy = store.path / "bins" / "date=mixed" / "rack=r1" / path.name
    copy.parent.mkdir(parents=True)
    shutil.copy(path, copy)
    assert len(damaged_files(store.connect())) == 1
    [step] = repair(store.path)
    assert str(step).endswith("lost: nothing")
    assert damaged_files(store.connect()) == [] and check(store.path).missing == []


def test_rows_of_a_log_that_were_not_saved_stay_missing(store: StoreFolder) -> None:
    log = left_hot(store)
    flip(log, log.stat().st_size // 2)
    [before] = damaged_files(store.connect())
    list(repair(store.path))
    [after] = damaged_files(store.connect())
    assert after.facts() == {**before.facts(), "path": after.path, "reason": SET_ASIDE}
    assert damaged_files(store.connect("r2")) == []


def test_adjacent_batches_bound_the_time_of_a_damaged_one(store: StoreFolder) -> None:
    """The rows of a recorded file are older than the time of writing, which is no bound."""
    log = left_hot(store, batches=5)
    flip(log, log.stat().st_size // 2)
    [damage] = damaged_files(store.connect())
    assert damage.first_ns is not None and damage.last_ns is not None
    assert T0 <= damage.first_ns <= T0 + 2 * 10**6 <= damage.last_ns <= T0 + 4 * 10**6


def test_a_damaged_end_of_a_log_has_no_known_last_time(store: StoreFolder) -> None:
    log = left_hot(store)
    flip(log, log.stat().st_size - 40)
    list(repair(store.path))
    [damage] = damaged_files(store.connect(since_ns=T0 + DAY))
    assert damage.last_ns is None


def test_a_foreign_file_counts_as_missing_on_the_day_of_its_folder(store: StoreFolder) -> None:
    (in_order(store)[0].parent / "stranger.parquet").write_bytes(b"?")
    list(repair(store.path))
    [damage] = damaged_files(store.connect())
    assert (damage.rack, damage.host, damage.reason) == ("r1", "", SET_ASIDE)
    assert damaged_files(store.connect(since_ns=T0 + 3 * DAY)) == []


def test_check_reports_missing_rows_and_deep_reports_the_sums(store: StoreFolder, capsys: Any) -> None:
    aside = lose(store, in_order(store)[1])
    assert main(["check", str(store.path), "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert (facts["sound"], facts["damaged_files"]) == (True, [])
    assert [file["path"] for file in facts["missing"]] == [str(aside)]
    assert main(["check", str(store.path), "--deep"]) == 1
    printed = capsys.readouterr()
    assert printed.err == ""
    file, *mismatches, summary = printed.out.splitlines()
    assert file.startswith(f"{aside}: set aside by `mburst repair` (missing: rows of bins of host cache-1")
    assert mismatches[0] == "recording run-1 of host cache-1: 20 packets in bins, and the recording says 30"
    assert summary.endswith("3 mismatched sums and 1 file set aside")


def test_deep_is_not_sound_even_if_no_sum_shows_the_missing_rows(store: StoreFolder, capsys: Any) -> None:
    write(store, "probes", {"tx_ns": T0, "rx_ns": T0 + 1})
    lose(store, sealed_files(store, "probes")[0])
    assert main(["check", str(store.path)]) == 0
    assert capsys.readouterr().out.splitlines()[-1].endswith("sound and 1 file set aside")
    assert main(["check", str(store.path), "--deep"]) == 1


def test_a_second_repair_finds_nothing_damaged(store: StoreFolder, capsys: Any) -> None:
    lose(store, in_order(store)[1])
    assert main(["repair", str(store.path)]) == 0 and "nothing is damaged" in capsys.readouterr().out


def test_files_named_one_by_one_include_files_set_aside(store: StoreFolder) -> None:
    from mburst.sql import listed

    lose(store, in_order(store)[1])
    with listed.connect(store.files()) as con:
        assert [file.table for file in damaged_files(con)] == ["bins"]


def test_a_store_without_such_files_is_not_searched_for_them(
    store: StoreFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    from mburst.sql import aside

    monkeypatch.setattr(aside, "missing", lambda *args: pytest.fail("there is no folder of them"))
    remember(in_order(store)[0])
    store.connect()


@pytest.mark.parametrize("width", ["1s", "4s", "7s"])
def test_utilization_has_each_remaining_bin_once(store: StoreFolder, width: str) -> None:
    lose(store, in_order(store)[1])
    with pytest.warns(mburst.DamagedFileWarning):
        found = mburst.open(store.path).utilization(bin=width, link="1G")
    times = found.column("ts_ns").to_pylist()
    assert sum(found.column("packets").to_pylist()) == 20 and len(set(times)) == len(times)
    if width == "1s":
        assert [(time - T0) // SECOND for time in times] == [*range(10), *range(20, 30)]


def test_the_distribution_of_utilization_is_of_the_remaining_bins(store: StoreFolder) -> None:
    lose(store, in_order(store)[1])
    con = store.connect()
    rows = con.execute(prepare(con, "distribution")).fetchall()
    assert [(row[5:]) for row in rows if row[6]] == [(0.0, 20, 1.0)]


def test_an_investigation_reads_the_bins_of_both_sides_of_a_gap_once(store: StoreFolder) -> None:
    lose(store, in_order(store)[1])
    con, question = store.connect(), Question(BurstDefinition())
    runs = read_recordings(con, question)
    port = read_port(con, ("cache-1", "eth0", "in"), {("cache-1", "eth0", "in"): runs}, T0, CaptureLoss())
    assert len(runs) == 2 and int(port.carried[-1]) == 20 * 124
