"""Small files of an hour of the current day are merged into one; every answer stays the same."""

from __future__ import annotations

import time
import zlib
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import pytest
from compactionlib import DAY, MS, S, bursts, compacted, counted, hours_merged, incast, quiet, recorded, together
from storelib import rows

from mburst.cli.compact import line
from mburst.sql import StoreFolder, follow
from mburst.sql.compaction import files
from mburst.sql.compaction.compact import DayCompacted, compact
from mburst.sql.compaction.rules import FOLLOWED_NS, SETTLED_NS, Detail, KeepRules
from mburst.sql.follow import TableFollower
from mburst.sql.format import filenames
from mburst.sql.format.filenames import Segment
from mburst.sql.segments import FileSelection, SealedFile, list_sealed
from mburst.units import NS_PER_DAY

HOUR = 3600 * S
HOSTS = ("a", "b", "c")
AT_ELEVEN = DAY + 11 * HOUR + 2 * 60 * S  # the hours before have ended
OVER = DAY + NS_PER_DAY + SETTLED_NS


def traffic(host: str, hour: int) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Returns traffic of most of an HOUR, with a burst in the middle and one at the end that continues into the next
    hour."""
    at = DAY + hour * HOUR + HOSTS.index(host) * S
    return together(
        quiet(at + 60 * S, 60, 20_000), incast(at + 1800 * S), incast(DAY + (hour + 1) * HOUR - 30 * MS, 25),
        incast(DAY + (hour + 1) * HOUR + 2 * MS, 3)
    )  # fmt: skip


@pytest.fixture
def store(tmp_path: Path) -> StoreFolder:
    """A store of three hosts that recorded from 9 to 12."""
    made = StoreFolder.create(tmp_path / "store")
    for host in HOSTS:
        for hour in (9, 10, 11):
            recorded(made, f"{host}{hour}", *traffic(host, hour))
    return made


def answers(store: StoreFolder) -> tuple[Any, ...]:
    with store.connect() as con:
        tables = [con.execute(f"FROM {table} ORDER BY ALL").fetchall() for table in ("bins", "sources", "recordings")]
    return bursts(store), counted(store), tables


def sealed_files(store: StoreFolder, table: str) -> list[SealedFile]:
    return list_sealed(store.path, table, FileSelection()).files


def names(store: StoreFolder, table: str) -> list[int]:
    """Returns how far each file of TABLE was compacted."""
    return sorted(file.name.segment.compacted for file in sealed_files(store, table))


def test_an_hour_is_merged_into_one_file_of_each_table(store: StoreFolder) -> None:
    before = answers(store)
    assert names(store, "bins") == names(store, "sources") == [0] * 27
    assert hours_merged(store, AT_ELEVEN) == [9, 10]
    assert names(store, "bins") == names(store, "sources") == [0] * 9 + [1] * 2
    assert answers(store) == before
    assert hours_merged(store, AT_ELEVEN) == []
    assert hours_merged(store, AT_ELEVEN + HOUR) == [11]
    assert answers(store) == before


def test_a_day_of_merged_hours_is_compacted_like_any_other(store: StoreFolder, tmp_path: Path) -> None:
    before = bursts(store), counted(store)
    other = StoreFolder.create(tmp_path / "other")
    for host in HOSTS:
        for hour in (9, 10, 11):
            recorded(other, f"{host}{hour}", *traffic(host, hour))
    hours_merged(store, AT_ELEVEN)
    for now_ns, detail in ((OVER, 1), (OVER + NS_PER_DAY, 2)):
        for made in (store, other):
            done = [day for day in compacted(made, now_ns).days if day.name.start_ns == DAY]
            assert [day.detail for day in done] == [detail]
        assert (bursts(store), counted(store)) == before
    found = []
    for made in (store, other):
        with made.connect() as con:
            found.append([con.execute(f"SELECT * FROM {of} ORDER BY ALL").fetchall() for of in ("bins", "sources")])
            found[-1] += [con.execute(f"FROM {of} ORDER BY ALL").fetchall() for of in ("kept", "steps", "counts")]
    assert found[0] == found[1] and all(found[0])
    assert names(store, "bins") == [2]


def test_recent_files_wait_for_followers(store: StoreFolder) -> None:
    assert compacted(store, AT_ELEVEN).days == []
    later = SimpleNamespace(time_ns=lambda: time.time_ns() + FOLLOWED_NS)
    with mock.patch.object(files, "time", later):
        assert [day.name.hour for day in compacted(store, AT_ELEVEN).days] == [9, 10]


def test_large_files_wait_for_the_end_of_the_day(store: StoreFolder) -> None:
    with mock.patch.object(files, "SMALL_IN_HOUR", 1):
        assert hours_merged(store, AT_ELEVEN) == []


def test_rows_stay_in_order_of_time(tmp_path: Path) -> None:
    """An hour of a recording may have a large file while the adjacent hours have none."""
    store = StoreFolder.create(tmp_path / "store")
    hours = [traffic("a", hour) for hour in (8, 9, 10)]
    much = quiet(DAY + 9 * HOUR + 61 * S, 20_000, 100)
    recorded(store, "a", *together(*hours, much))
    recorded(store, "b", *together(*(traffic("b", hour) for hour in (8, 9, 10))))
    largest = max(file.path.stat().st_size for file in sealed_files(store, "bins"))
    with mock.patch.object(files, "SMALL_IN_HOUR", largest):
        hours_merged(store, AT_ELEVEN)
    assert {0, 1} == {*names(store, "bins")}
    compacted(store, OVER)
    with store.connect() as con:
        [[of_day]] = [[file.path] for file in sealed_files(store, "bins")]
        rows_of = con.execute("SELECT recording_id, ts_ns FROM read_parquet($1)", [str(of_day)]).fetchall()
    assert len(rows_of) > 20_000
    for name in ("a", "b"):
        times = [ts for recording, ts in rows_of if recording == name]
        assert times == sorted(times), name


def test_hours_that_a_recorder_adds_to_wait(store: StoreFolder) -> None:
    """So do files of recordings of files, which another recording may replace."""
    recorded(store, "file", *traffic("a", 9), boot_id=None)
    writer = f"{zlib.crc32(b'a9'):012x}"
    begin = lambda host, writer, number: Segment(host, DAY + 9 * HOUR, writer, 7)  # noqa: E731
    more = {"recording_id": "a9", "host": "host-a9", "wire_bytes": 84, "bytes": 60, "packets": 1}
    with mock.patch.object(filenames, "new_segment", begin), store.writer("bins", "host-a9", "r1", writer) as to:
        to.append(rows("bins", {**more, "ts_ns": DAY + 9 * HOUR + 59 * 60 * S}))
        before = answers(store)
        assert hours_merged(store, AT_ELEVEN) == [9, 10]
        left = {file.name.segment.host for file in sealed_files(store, "bins") if not file.name.segment.compacted}
        assert left == {"host-a9", "host-file", *(f"host-{host}11" for host in HOSTS)}
        assert answers(store) == before
    assert hours_merged(store, AT_ELEVEN) == [9]
    assert answers(store) == before


def test_a_day_with_a_recorder_that_died_keeps_every_row(tmp_path: Path) -> None:
    """The rows to keep of a recording are chosen over its whole day, once the next recorder has ended it."""
    store = StoreFolder.create(tmp_path / "store")
    recorded(store, "a9", *traffic("a", 9))
    recorded(store, "b9", *traffic("b", 9), counted_segments=2, complete=False, ended="")
    before = answers(store)
    assert hours_merged(store, AT_ELEVEN) == [9]
    assert names(store, "bins") == [0, 0, 0, 1]
    compacted(store, OVER + NS_PER_DAY)
    assert answers(store) == before and names(store, "bins").count(0) == 3


@pytest.mark.parametrize("polls", [(0.0,), (0.0, FOLLOWED_NS / 1e9 + 1)])
def test_followers_count_rows_once_or_report_that_some_may_be_missing(
    store: StoreFolder, polls: tuple[float, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = [1000.0]
    monkeypatch.setattr(follow, "time", SimpleNamespace(monotonic=lambda: clock[0], time_ns=lambda: AT_ELEVEN))
    follower = TableFollower(store.path, "bins", look_for_sealed_s=0)
    assert follower.poll() == []
    for later in polls:
        clock[0] += later
        hours_merged(store, AT_ELEVEN + (HOUR if later else 0))
        assert follower.poll() == []
    assert [line.startswith(f"{store.path}: `mburst compact` merged rows of bins") for line in follower.damage] == [
        True
    ] * (len(polls) - 1)
    follower.close()


def test_files_that_are_not_shipped_wait(store: StoreFolder, tmp_path: Path) -> None:
    pytest.importorskip("obstore")
    from mburst.fleet.ship import ShipSettings, ship
    from mburst.fleet.target import open_target

    target = open_target(str(tmp_path / "target"))
    ship(store, target, ShipSettings())
    recorded(store, "d9", *traffic("a", 9))
    assert hours_merged(store, AT_ELEVEN) == [9, 10]
    assert {file.name.segment.host for file in sealed_files(store, "bins")} >= {"", "host-d9"}
    ship(store, target, ShipSettings())
    assert names(store, "bins").count(0) == 12 == 3 + len([*(tmp_path / "target" / "bins").rglob("host-?11-*")])


def test_the_command_names_tables_without_a_rack() -> None:
    name = files.DayName(20_000, "")
    day = DayCompacted(name, Detail.ALL, 3, 1000, tables=("probes", "queues"))
    assert line(day, KeepRules()) == "2024-10-04 probes, queues: 3 files, 1 kB: every row"
    assert day.facts()["tables"] == ["probes", "queues"]


def test_the_command_names_hours(store: StoreFolder) -> None:
    with mock.patch.object(files, "FOLLOWED_NS", 0):
        done = compact(store, KeepRules(), now_ns=AT_ELEVEN, dry_run=True)
    assert [line(day, KeepRules()).partition(" files, ")[0] for day in done.days] == [
        "2024-10-04 09:00 rack r1: 18",
        "2024-10-04 10:00 rack r1: 18",
    ]
    assert [(day["date"], day["hour"], day["kept"]) for day in done.to_dict()["days"]] == [
        ("2024-10-04", 9, "all"),
        ("2024-10-04", 10, "all"),
    ]
