"""Compaction of days of which files were set aside by `mburst repair`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from compactionlib import (
    DAY,
    MS,
    NOW,
    S,
    bursts,
    compacted,
    counted,
    days_of_bursts,
    incast,
    quiet,
    recorded,
    same,
    together,
)
from storelib import sealed_files

from mburst.sql import StoreFolder
from mburst.sql.compaction.compact import compact
from mburst.sql.compaction.rules import Detail, KeepRules
from mburst.sql.format.filenames import SealedName, date_of
from mburst.sql.format.hotlog import HotLog
from mburst.sql.repair.checking import check
from mburst.sql.repair.repair import repair
from mburst.sql.repair.sums import compare_sums
from mburst.sql.verified import digest
from mburst.units import NS_PER_DAY


@pytest.fixture
def store(tmp_path: Path) -> StoreFolder:
    """A store of three days of two hosts."""
    made = StoreFolder.create(tmp_path / "store")
    days_of_bursts(made)
    return made


@pytest.mark.parametrize("table", ["bins", "sources"])
@pytest.mark.parametrize("is_back", [True, False])
def test_a_day_of_which_a_file_was_set_aside_loses_no_sound_row(store: StoreFolder, table: str, is_back: bool) -> None:
    """What is kept of senders is decided by the bins. Once the file is back, or given up, its day is compacted."""
    before = bursts(store)
    path = min(sealed_files(store, table), key=lambda path: path.name.split(".")[3])
    content = path.read_bytes()
    path.write_bytes(b"?")
    list(repair(store.path))
    done = compacted(store)
    assert len([line for line in done.waits if str(path.relative_to(store.path)) in line]) == 1
    assert {day.detail for day in done.days if date_of(day.name.day) == "2024-10-04"} <= {Detail.ALL}
    assert any(day.detail is Detail.BURSTS for day in done.days)
    [gone] = (store.path / "damaged").glob("*/*/*/*")
    if is_back:
        path.write_bytes(content)
        assert same(before, bursts(store))
    else:
        gone.unlink()
    assert [day.detail for day in compacted(store).days] == [Detail.BURSTS]
    assert not compacted(store).waits
    if is_back:
        assert same(before, bursts(store))
        found = check(store.path)
        compare_sums(store.path, found)
        assert found.is_sound


def test_a_damaged_file_at_midnight_holds_up_only_the_days_beside_it(tmp_path: Path) -> None:
    """Bursts across midnight are kept with bins of the next day."""
    store = StoreFolder.create(tmp_path / "store")
    noon = NS_PER_DAY // 2
    parts = [
        part
        for day in range(4)
        for part in (quiet(DAY + day * NS_PER_DAY + noon, 500), incast(DAY + day * NS_PER_DAY + noon + 60 * S))
    ]
    recorded(store, "r0", *together(*parts))
    recorded(store, "r1", *together(quiet(DAY + NS_PER_DAY + 2 * MS, 300)))
    path = min(path for path in sealed_files(store, "bins") if path.name.startswith("host-r1-"))
    content = path.read_bytes()
    before = bursts(store)
    path.write_bytes(bytes([*content[:-200], content[-200] ^ 1, *content[-199:]]))
    now_ns = NOW + 3 * NS_PER_DAY
    done = compact(store, KeepRules(), now_ns=now_ns)
    assert [day.detail for day in done.days] == [Detail.ALL, *[Detail.BURSTS] * 3]
    assert any(str(path) in line for line in done.waits) and any(str(path) in line for line in done.troubles)
    path.write_bytes(content)
    assert [day.detail for day in compacted(store, now_ns).days] == [Detail.BURSTS] * 2
    assert same(before, bursts(store))


def test_days_with_missing_rows_are_removed_with_age(store: StoreFolder) -> None:
    path = sealed_files(store, "bins")[0]
    path.write_bytes(b"?")
    list(repair(store.path))
    done = compacted(store, NOW + 90 * NS_PER_DAY)
    assert not done.waits and {day.detail for day in done.days} == {Detail.STEPS}


def test_days_after_a_log_that_was_set_aside_do_not_wait_for_it(store: StoreFolder) -> None:
    """Of such a log it may be unknown when its last row is."""
    for name in ("host-r0", ""):
        log = store.path / "hot" / "bins" / f"{name}-{DAY + NS_PER_DAY // 2:020}-0123456789ab-0.log"
        log.parent.mkdir(parents=True, exist_ok=True)
        log.write_bytes(b"x" * 1000)
    list(repair(store.path))
    assert [date_of(day.name.day) for day in compacted(store).days if day.detail is Detail.BURSTS] == ["2024-10-05"]


def test_a_thinned_day_does_not_wait_for_a_file_that_was_set_aside(store: StoreFolder) -> None:
    compacted(store)
    path = sealed_files(store, "bins")[0]
    path.write_bytes(b"?")
    list(repair(store.path))
    done = compacted(store)
    assert not done.waits and not done.days and len(check(store.path).missing) == 1


@pytest.mark.parametrize("is_log", [False, True])
def test_what_is_back_in_other_bytes_is_not_missing_after_compaction(store: StoreFolder, is_log: bool) -> None:
    """Rows are back with a segment that was sealed again, whatever the bytes of its files."""
    path = min(sealed_files(store, "bins"), key=lambda path: path.name.split(".")[3])
    before, content = bursts(store), pq.read_table(path, partitioning=None)
    if is_log:
        name = SealedName.parse(path.name)
        assert name is not None
        log = HotLog(StoreFolder.create(store.path.with_name("other")).path, "bins", name.segment, "r1")
        log.append(content.slice(0, 1))
        log.leave()
        with log.path.open("ab") as file:
            file.write(b"?" * 1000)
        (store.path / "damaged" / "hot" / "bins").mkdir(parents=True)
        log.path.rename(store.path / "damaged" / "hot" / "bins" / log.path.name)
    else:
        path.write_bytes(b"?")
        list(repair(store.path))
        pq.write_table(content, draft := path.with_name("draft"), compression="gzip")
        draft.rename(path.with_name(path.name.replace(path.name.split(".")[4], digest(draft))))
    assert not check(store.path).missing
    assert any(day.detail is Detail.BURSTS for day in compacted(store).days)
    assert not check(store.path).missing and same(before, bursts(store))


@pytest.mark.parametrize("table", ["thinned", "steps", "kept", "recordings"])
@pytest.mark.parametrize("is_repaired", [True, False])
def test_files_about_a_day_that_are_missing_as_it_is_reduced_double_no_sum(
    store: StoreFolder, table: str, is_repaired: bool
) -> None:
    def sums() -> list[tuple[Any, ...]]:
        return [row[:4] for row in counted(store)]

    before = sums()
    compacted(store)
    moved = {path: path.read_bytes() for path in sealed_files(store, table)}
    for path in moved:
        path.write_bytes(b"?")
    if is_repaired:
        list(repair(store.path))
    for is_back in (False, True):
        for path, content in moved.items() if is_back else ():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        compact(store, KeepRules(), now_ns=NOW + 100 * NS_PER_DAY)
    assert sums() == before


def test_a_day_waits_for_recordings_that_were_set_aside(store: StoreFolder) -> None:
    """Their rows, merged with those of others, would be taken for thinned ones once they are back."""
    before = [row[:4] for row in counted(store)]
    compacted(store, everything_ns=90 * NS_PER_DAY)
    moved = {path: path.read_bytes() for path in sealed_files(store, "recordings")}
    for path in moved:
        path.write_bytes(b"?")
    list(repair(store.path))
    done = compacted(store)
    assert len([line for line in done.waits if "of recording r0 again" in line]) == len(done.waits) == 2
    for path, content in moved.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    assert {day.detail for day in compacted(store).days} == {Detail.BURSTS}
    assert [row[:4] for row in counted(store)] == before
