"""Copied stores have duplicate files, logs of an earlier moment, and names that look like patterns. No row counts
twice, and none is lost."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path
from typing import Any
from unittest import mock

import compactionlib
import pyarrow.parquet as pq
import pytest
from storelib import hot_logs, rows, sealed_files, write
from test_checking import flip

from mburst.fleet import sealed
from mburst.sql import StoreFolder, replacing, verified
from mburst.sql.compaction import files, rewriting
from mburst.sql.compaction.compact import compact
from mburst.sql.compaction.rules import KeepRules
from mburst.sql.damage import SECOND_COPY
from mburst.sql.follow import TableFollower
from mburst.sql.format import filenames
from mburst.sql.format.hotlog import HotLog
from mburst.sql.repair.changed import check_changed
from mburst.sql.repair.checking import check
from mburst.sql.repair.repair import repair

T0 = 1_700_000_000_000_000_000
BATCHES, ROWS = 4, 5


def dead_log(store: StoreFolder) -> tuple[Path, list[int]]:
    """Returns the log of a writer that died, and where each of its frames ends."""
    log = HotLog(store.path, "bins", filenames.new_segment("cache-1", filenames.new_writer(), 0), "r1")
    ends = [log.path.stat().st_size]
    for at in range(BATCHES):
        log.append(rows("bins", *({"ts_ns": T0 + (at * ROWS + row) * 86_400 * 10**9 // 8} for row in range(ROWS))))
        ends.append(log.path.stat().st_size)
    log.leave()
    return log.path, ends


def counted(store: StoreFolder, since_ns: int | None = None) -> tuple[int, int, list[str]]:
    """Returns the number of rows, the number of distinct rows, and the reasons of damaged files."""
    with store.connect(since_ns=since_ns) as connection:
        [(count, distinct)] = connection.execute("SELECT count(*), count(DISTINCT ts_ns) FROM bins").fetchall()
        return count, distinct, [why for (why,) in connection.execute("SELECT reason FROM damaged_files").fetchall()]


@pytest.mark.parametrize("batches", [-1, 0, 2, BATCHES])
def test_a_restored_log_removes_no_row_of_its_sealed_files(tmp_path: Path, batches: int) -> None:
    """A copy that was made while the segment was sealed has such files: the log from before, the sealed files from
    after."""
    store = StoreFolder.create(tmp_path / "store")
    path, ends = dead_log(store)
    content = path.read_bytes()
    assert store.seal() == 1 and len(sealed_files(store, "bins")) > 1
    before = counted(store)
    path.write_bytes(content[: ends[batches]] if batches >= 0 else b"")
    assert before == counted(store) == (BATCHES * ROWS, BATCHES * ROWS, [])
    assert counted(store, T0 + 86_400 * 10**9)[2] == []
    found = check(store.path)
    assert found.is_sound and [remark.path for remark in found.remarks] == ([str(path)] if batches < BATCHES else [])
    assert store.seal() == 1 and hot_logs(store, "bins") == []
    assert counted(store) == before


def test_a_restored_damaged_log_is_named_and_removes_no_row(tmp_path: Path) -> None:
    store = StoreFolder.create(tmp_path / "store")
    path, ends = dead_log(store)
    content = bytearray(path.read_bytes())
    store.seal()
    content[ends[1] + 50] ^= 1
    path.write_bytes(content)
    count, distinct, named = counted(store)
    assert (count, distinct, len(named)) == (BATCHES * ROWS, BATCHES * ROWS, 1)
    [done] = repair(store.path)
    assert done.saved == BATCHES * ROWS and not path.exists()
    assert counted(store) == (BATCHES * ROWS, BATCHES * ROWS, [])


def test_files_of_an_interrupted_seal_do_not_count(tmp_path: Path) -> None:
    """One of the files has its final name; another does not exist yet, or is damaged."""
    store = StoreFolder.create(tmp_path / "store")
    path, _ = dead_log(store)
    content = path.read_bytes()
    store.seal()
    path.write_bytes(content)
    first, *_ = sealed_files(store, "bins")
    other = bytearray(first.read_bytes())
    other[20] ^= 1
    first.write_bytes(other)
    assert counted(store) == (BATCHES * ROWS, BATCHES * ROWS, [])
    first.unlink()
    assert counted(store) == (BATCHES * ROWS, BATCHES * ROWS, [])
    assert store.seal() == 1
    assert counted(store) == (BATCHES * ROWS, BATCHES * ROWS, [])


def test_a_duplicate_file_counts_once_and_is_named(tmp_path: Path) -> None:
    store = StoreFolder.create(tmp_path / "store")
    dead_log(store)
    store.seal()
    [file, *_] = sealed_files(store, "bins")
    folder = store.path / "bins" / filenames.MIXED / file.parent.name
    folder.mkdir(parents=True)
    shutil.copy(file, folder)
    copy = folder / file.name
    os.utime(file, (0, 0))
    assert counted(store) == (BATCHES * ROWS, BATCHES * ROWS, [SECOND_COPY])
    assert [damaged.path for damaged in check(store.path).damaged] == [str(copy)]
    list(repair(store.path))
    assert counted(store) == (BATCHES * ROWS, BATCHES * ROWS, [])


def copied(path: Path) -> Path:
    """Returns a copy of a sealed file in other bytes, as another version of the library writes it."""
    pq.write_table(pq.read_table(path, partitioning=None), draft := path.with_suffix(".new"), compression="none")
    name = filenames.SealedName.parse(path.name)
    assert name is not None
    copy = path.with_name(filenames.SealedName(**{**vars(name), "digest": verified.digest(draft)}).name)
    return draft.rename(copy)


@pytest.mark.parametrize("newest", ["sound", "damaged"])
@pytest.mark.parametrize("rotted", [True, False])
def test_the_sound_one_of_two_copies_counts(tmp_path: Path, newest: str, rotted: bool) -> None:
    """Before, while and after the store is repaired. What has rotted is known once `check` has read it."""
    store = StoreFolder.create(tmp_path / "store")
    dead_log(store)
    store.seal()
    [sound, *_] = sealed_files(store, "bins")
    damaged = copied(sound)
    if rotted:
        counted(store)
    flip(damaged, 30)
    os.utime(damaged if newest == "sound" else sound, (0, 0))
    if rotted:
        verified.remember(damaged)
    else:
        assert counted(store) == (BATCHES * ROWS, BATCHES * ROWS, [SECOND_COPY])
    for _ in range(2):
        [found] = check(store.path).damaged
        assert (found.path, found.reason) == (str(damaged), SECOND_COPY)
        assert str(found) == f"{damaged}: damaged: {SECOND_COPY} (missing: nothing)"
        assert [of.path for of in check_changed(store.path)] == [str(damaged)]
        assert [of.path for of in sealed._list(store.path, "bins").damaged] == [str(damaged)]
        assert counted(store) == (BATCHES * ROWS, BATCHES * ROWS, [SECOND_COPY])
    [done] = repair(store.path)
    assert str(done).endswith(f"{damaged.name}.copy; lost: nothing")
    assert sound.exists() and not damaged.exists() and check(store.path).is_sound
    assert counted(store) == (BATCHES * ROWS, BATCHES * ROWS, [])


def sealed_twice(tmp_path: Path, fewer: int) -> tuple[StoreFolder, list[Path], list[Path]]:
    """Returns a store with the files of one segment as sealed after FEWER batches and after all, and those of each that
    differ."""
    store = StoreFolder.create(tmp_path / "store")
    path, ends = dead_log(store)
    shutil.copytree(store.path, tmp_path / "whole")
    shutil.copytree(path.parent, tmp_path / "logs")
    path.write_bytes(path.read_bytes()[: ends[fewer]])
    store.seal()
    whole = StoreFolder.open(tmp_path / "whole")
    whole.seal()
    early, late = ({of.relative_to(at.path) for of in sealed_files(at, "bins")} for at in (store, whole))
    for of in late:
        (store.path / of).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(whole.path / of, store.path / of)
    return store, *([store.path / of for of in some] for some in (early - late, late - early))


@pytest.mark.parametrize("newest", ["fewer", "more"])
def test_of_sound_copies_that_with_the_most_rows_counts(tmp_path: Path, newest: str) -> None:
    """A segment that was sealed in a copy of the store may have grown in the original."""
    store, fewer, more = sealed_twice(tmp_path, 3)
    for of in more if newest == "fewer" else fewer:
        os.utime(of, (0, 0))
    assert len(fewer) == 1 and counted(store) == (BATCHES * ROWS, BATCHES * ROWS, [SECOND_COPY])
    assert [damaged.path for damaged in check(store.path).damaged] == [str(*fewer)]
    assert [damaged.path for damaged in check_changed(store.path)] == [str(*fewer)]
    [done] = repair(store.path)
    assert str(done).endswith("lost: nothing") and check(store.path).is_sound
    assert counted(store) == (BATCHES * ROWS, BATCHES * ROWS, [])


@pytest.mark.parametrize("at", [30, -6])
@pytest.mark.parametrize("with_log", [True, False])
def test_rows_that_only_a_damaged_copy_had_are_missing(tmp_path: Path, at: int, with_log: bool) -> None:
    """AT its end, the damage hides how many rows it had."""
    store, [fewer], more = sealed_twice(tmp_path, 3)
    [longer] = [of for of in more if of.parent == fewer.parent]
    left = BATCHES * ROWS - (pq.read_metadata(longer).num_rows - pq.read_metadata(fewer).num_rows)
    flip(longer, at)
    if with_log:  # of an earlier moment
        [log] = (tmp_path / "logs").iterdir()
        os.truncate(shutil.copy2(log, store.path / "hot" / "bins"), log.stat().st_size // 2)
    count, distinct, reasons = counted(store)
    assert count == distinct == left and len(reasons) == 1 and SECOND_COPY not in reasons
    [found] = check(store.path).damaged
    assert found.path == str(longer) and found.missing().startswith("rows of bins")
    [done] = repair(store.path)
    assert not done.is_copy and len(check(store.path).missing) == 1
    assert counted(store)[:2] == (left, left)


def test_of_two_damaged_copies_one_is_missing(tmp_path: Path) -> None:
    store = StoreFolder.create(tmp_path / "store")
    dead_log(store)
    store.seal()
    [path, *_] = sealed_files(store, "bins")
    for of in (path, copied(path)):
        flip(of, 30)
    left, distinct, reasons = counted(store)
    assert left == distinct < BATCHES * ROWS and len(reasons) == 2 and SECOND_COPY in reasons
    assert sorted(done.is_copy for done in repair(store.path)) == [False, True]
    found = check(store.path)
    assert found.is_sound and len(found.missing) == 1 and counted(store)[:2] == (left, left)


@pytest.mark.parametrize(("of_sealed", "of_log", "damaged"), [(3, 4, False), (4, 2, True)])
def test_a_log_beside_copies_of_its_sealed_files(tmp_path: Path, of_sealed: int, of_log: int, damaged: bool) -> None:
    """A copy neither adds to the rows that are sealed, nor do they count as lost because it is damaged."""
    store = StoreFolder.create(tmp_path / "store")
    path, ends = dead_log(store)
    content = path.read_bytes()
    path.write_bytes(content[: ends[of_sealed]])
    assert store.seal() == 1
    for copy in map(copied, sealed_files(store, "bins")):
        if damaged:
            flip(copy, 30)
    path.write_bytes(content[: ends[of_log]])
    most = max(of_sealed, of_log) * ROWS
    assert counted(store)[:2] == (most, most)
    store.seal()
    list(repair(store.path))
    assert counted(store) == (most, most, [])


@pytest.mark.parametrize("newest", ["the file", "the copy"])
def test_a_day_with_a_second_copy_is_not_compacted(tmp_path: Path, newest: str) -> None:
    """Otherwise the copy counts beside what replaces the file."""
    store = StoreFolder.create(tmp_path / "store")
    compactionlib.days_of_bursts(store, 1)
    file = sealed_files(store, "bins")[0]
    copy = copied(file)
    os.utime(copy if newest == "the file" else file, (0, 0))
    before = compactionlib.counted(store)
    done = compact(store, KeepRules(), now_ns=compactionlib.NOW)
    assert compactionlib.counted(store) == before
    assert done.troubles == [f"{of}: {SECOND_COPY}: its day stays as it is" for of in sorted([file, copy])]
    list(repair(store.path))
    assert not compact(store, KeepRules(), now_ns=compactionlib.NOW).troubles
    assert compactionlib.counted(store) == before


def test_an_hour_with_a_second_copy_is_merged_without_it(tmp_path: Path) -> None:
    store = StoreFolder.create(tmp_path / "store")
    noon = compactionlib.DAY + 12 * 3600 * 10**9
    for seq in range(3):
        write(store, "probes", {"tx_ns": noon + seq, "batch": "b", "seq": seq})
    copied(sealed_files(store, "probes")[0])
    with mock.patch.object(files, "FOLLOWED_NS", 0):
        compact(store, KeepRules(), now_ns=noon + 4 * 3600 * 10**9)
    assert store.connect().execute("SELECT count(*) FROM probes").fetchall() == [(3,)]
    assert len(sealed_files(store, "probes")) == 3


def test_a_copy_adds_nothing_to_the_totals_of_an_unfinished_recording(tmp_path: Path) -> None:
    store, writer = StoreFolder.create(tmp_path / "store"), filenames.new_writer()
    row = {"complete": False, "packets": 0, "bytes": 0, "counted_segments": 0, "writer_id": writer}
    bins = ({"ts_ns": T0 + at, "packets": 3, "bytes": 7} for at in range(10))
    for table, given in (("recordings", [row]), ("bins", bins)):
        with store.writer(table, "cache-1", "r1", writer) as into:
            into.append(rows(table, *given))
    copied(sealed_files(store, "bins")[0])
    with store.connect() as connection:
        assert connection.execute("SELECT packets, bytes FROM recordings").fetchall() == [(30, 70)]
        assert connection.execute("SELECT sum(packets), sum(bytes) FROM bins").fetchall() == [(30, 70)]


def test_a_follower_gets_no_row_of_a_second_copy(tmp_path: Path) -> None:
    store = StoreFolder.create(tmp_path / "store")
    follower, now = TableFollower(store.path, "bins", look_for_sealed_s=0), time.time_ns()
    write(store, "bins", *({"ts_ns": now + at} for at in range(10)))
    copied(sealed_files(store, "bins")[0])
    found = [at for batch in follower.poll() for at in batch.column("ts_ns").to_pylist()]
    follower.close()
    assert sorted(found) == [now + at for at in range(10)]


@pytest.mark.parametrize("damaged", [False, True])
def test_a_copy_of_the_next_day_changes_nothing_of_a_compacted_day(tmp_path: Path, damaged: bool) -> None:
    """Its rows would count twice in bins across midnight. A damaged one has no row that is missing."""
    stores = [StoreFolder.create(tmp_path / name) for name in ("one", "two")]
    midnight, ms = compactionlib.DAY + 86_400 * 10**9, 10**6
    bins, senders = compactionlib.quiet(compactionlib.DAY + 12 * 3600 * 10**9, 200)
    full = {"bytes": 70_000, "wire_bytes": 75_000, "packets": 50}
    bins += [{"ts_ns": midnight + at * ms, **full} for at in range(-3, 20)]
    near: dict[Path, list[Any]] = {store.path: [] for store in stores}
    for store in stores:
        compactionlib.recorded(store, "r0", bins, senders)
    for file in sealed_files(stores[1], "bins"):
        if filenames.SealedName.parse(file.name).first_ns >= midnight and damaged:
            flip(copied(file), 30)
        elif filenames.SealedName.parse(file.name).first_ns >= midnight:
            copied(file)
    show, done = rewriting.show, list[Any]()

    def shown(connection: Any, view: str, *of: Any) -> Any:
        result = show(connection, view, *of)
        if view == "day_near_bins":
            counts = connection.execute("SELECT count(*), count(DISTINCT ts_ns) FROM day_near_bins")
            near[[*near][len(done)]].append(counts.fetchone())
        return result

    with mock.patch.object(rewriting, "show", shown):
        for store in stores:
            done.append(compact(store, KeepRules(), now_ns=compactionlib.NOW))
    once, twice = near.values()
    assert set(once) >= set(twice) and once and twice and all(count == distinct for count, distinct in twice)
    before = [[(day.name, day.detail) for day in made.days if day.name.start_ns < midnight] for made in done]
    assert before[0] == before[1] != []


@pytest.mark.parametrize(
    ("name", "twin"),
    [("st?re", "stare"), ("st*re", "stare"), ("st[or]e", "stoe"), ("st\nre 'x' \"y\"", "stare"), ("**", "stare")],
)
def test_the_name_of_a_folder_is_not_a_pattern(tmp_path: Path, name: str, twin: str) -> None:
    store = StoreFolder.create(tmp_path / name)
    dead_log(store)
    store.seal()
    shutil.copytree(store.path, tmp_path / twin)
    assert counted(store) == (BATCHES * ROWS, BATCHES * ROWS, [])
    assert check(store.path).is_sound


def test_a_name_with_an_invalid_time_is_not_a_file_name_of_mburst(tmp_path: Path) -> None:
    store = StoreFolder.create(tmp_path / "store")
    path, _ = dead_log(store)
    path.rename(path.with_name(f"cache-1-{'9' * 20}-0123456789ab-0.log"))
    dead_log(store)
    store.seal()
    [file, *others] = sealed_files(store, "bins")
    last = filenames.SealedName.parse(file.name).last_ns
    file.rename(file.with_name(file.name.replace(f"-{last}.", f"-{2**63}.")))
    count, _, named = counted(store)
    assert named == ["not a file name of mburst"] * 2 and 0 < count < BATCHES * ROWS and others
    assert len(check(store.path).damaged) == 2


@pytest.mark.parametrize("step", [1, 2, 5])
def test_a_backup_has_each_row_of_the_time_at_which_it_began(tmp_path: Path, step: int) -> None:
    """It is made as docs/operate.md says: the logs first, then everything, folder by folder, while compaction waits.
    The log is sealed before one of these folders is copied, or after the last."""
    store = StoreFolder.create(tmp_path / "store")
    dead_log(store)
    before = counted(store)
    backup = tmp_path / "backup"
    done = 0
    with replacing.exclusively(store.path) as is_free:
        assert is_free
        shutil.copytree(store.path / "hot", backup / "hot")
        for name in ["bins", "hot", "locks", "mburst.json", "recordings", "replaced"]:
            if done == step:
                store.seal()
            done += 1
            source = store.path / name
            if source.is_dir():
                shutil.copytree(source, backup / name, dirs_exist_ok=True)
            elif source.exists():
                shutil.copy(source, backup)
        assert compact(store, KeepRules()).is_busy
    copied = StoreFolder.open(backup)
    assert before == counted(copied) == (BATCHES * ROWS, BATCHES * ROWS, [])
    copied.seal()
    assert counted(copied) == before and check(copied.path).is_sound
