"""Rows of a store are read as written: hot or sealed, of any host, rack, date and encoding."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from storelib import hot_logs, rows, sealed_files, write

from mburst.errors import MburstError, UsageError
from mburst.sql import StoreFolder, sealing, segments
from mburst.sql.format import filenames
from mburst.sql.format.hotlog import HotLog
from mburst.sql.tables import ORDER, arrow_schema, columns
from mburst.sql.writer import TableWriter

T0 = 1_700_000_000_000_000_000
DAY = 86_400 * 10**9
SEGMENT = "cache-1-01700000000000000000-0123456789ab-0"


def stored(store: StoreFolder, table: str, **narrow: Any) -> Counter[tuple[Any, ...]]:
    return Counter(store.connect(**narrow).execute(f"SELECT * FROM {table}").fetchall())


def as_rows(table: pa.Table) -> Counter[tuple[Any, ...]]:
    return Counter(tuple(row.values()) for row in table.to_pylist())


# --- creating and opening -------------------------------------------------------------------------------------------


def test_create_makes_a_folder_and_opens_it_again(tmp_path: Path) -> None:
    first = StoreFolder.create(tmp_path / "a" / "store")
    write(first, "bins", {"ts_ns": T0})
    assert StoreFolder.create(tmp_path / "a" / "store").path == StoreFolder.open(tmp_path / "a" / "store").path
    assert sum(stored(StoreFolder.open(tmp_path / "a" / "store"), "bins").values()) == 1


def test_create_accepts_no_folder_that_is_not_empty(tmp_path: Path) -> None:
    StoreFolder.create(tmp_path)
    other = tmp_path / "home"
    other.mkdir()
    (other / "letter.txt").write_text("dear")
    with pytest.raises(MburstError, match=r"home: not empty, and not an mburst store"):
        StoreFolder.create(other)
    assert [path.name for path in other.iterdir()] == ["letter.txt"]


@pytest.mark.parametrize("make", [lambda path: None, lambda path: path.mkdir(), lambda path: path.write_text("x")])
def test_open_reports_a_missing_store(tmp_path: Path, make: Any) -> None:
    make(tmp_path / "x")
    with pytest.raises(MburstError, match="x: not an mburst store") as caught:
        StoreFolder.open(tmp_path / "x")
    assert caught.value.hint


def test_create_reports_a_file_in_place_of_the_folder(tmp_path: Path) -> None:
    (tmp_path / "x").write_text("x")
    with pytest.raises(MburstError, match="x: a file, and not an mburst store"):
        StoreFolder.create(tmp_path / "x")


@pytest.mark.parametrize("marker", ["", "{}", "[]", '{"format": 99}'])
def test_open_refuses_an_unknown_marker(tmp_path: Path, marker: str) -> None:
    (tmp_path / "mburst.json").write_text(marker)
    with pytest.raises(MburstError, match=r"damaged|format 99"):
        StoreFolder.open(tmp_path)


def test_an_empty_store_has_every_table_with_its_types(tmp_path: Path) -> None:
    connection = StoreFolder.create(tmp_path).connect()
    for table in ORDER:
        assert connection.execute(f"SELECT * FROM {table}").fetchall() == []
        described = [(name, kind) for name, kind, *_ in connection.execute(f"DESCRIBE {table}").fetchall()]
        assert described == [(column.name, column.type) for column in columns(table)]
    assert connection.execute("SELECT name FROM quality ORDER BY bit").fetchall()[0] == ("hw",)


# --- round trips ----------------------------------------------------------------------------------------------------

TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=12)
VALUES = {
    "VARCHAR": TEXT,
    "BIGINT": st.integers(-(2**63), 2**63 - 1),
    "UINTEGER": st.integers(0, 2**32 - 1),
    "USMALLINT": st.integers(0, 2**16 - 1),
    "BOOLEAN": st.booleans(),
}


@st.composite
def batches(draw: st.DrawFn) -> tuple[str, str, str, list[pa.Table]]:
    """Returns the name of a table, a host and a rack, and batches of rows with these. Text is plain or
    dictionary-encoded."""
    table = draw(st.sampled_from(sorted(ORDER)))
    host, rack = draw(TEXT), draw(TEXT)
    near = st.integers(T0, T0 + 3) | st.sampled_from([T0 + DAY, T0 - DAY, -1, 0, 2**63 - 1, -(2**63)])
    fields = {column.name: VALUES[column.type] for column in columns(table)}
    fields |= {name: near for name in fields if name == ORDER[table][-1]}
    fields |= {column.name: st.none() | VALUES[column.type] for column in columns(table) if column.nullable}
    fields |= {name: st.just(value) for name, value in (("host", host), ("rack", rack)) if name in fields}
    given_rows = draw(st.lists(st.lists(st.fixed_dictionaries(fields), max_size=8), min_size=1, max_size=4))
    encoded = draw(st.booleans())
    result = []
    for some in given_rows:
        batch = pa.Table.from_pylist(some, arrow_schema(table))
        if encoded:
            for index, field in enumerate(batch.schema):
                if field.type == pa.string():
                    text = (
                        batch.column(index)
                        .combine_chunks()
                        .dictionary_encode()
                        .cast(pa.dictionary(pa.int8(), pa.string()))
                    )
                    batch = batch.set_column(index, pa.field(field.name, text.type, field.nullable), text)
        result.append(batch)
    return table, host, rack, result


@pytest.mark.costly
@settings(deadline=None, max_examples=25)
@given(batches(), st.sampled_from([3, 10**6]), st.sampled_from([2, 10**6]), st.sampled_from([1, 2, 10**6]))
def test_all_rows_come_back_while_hot_and_when_sealed(
    tmp_path_factory: pytest.TempPathFactory, drawn: Any, roll_rows: int, row_group: int, together: int
) -> None:
    table, host, rack, given_batches = drawn
    store = StoreFolder.create(tmp_path_factory.mktemp("store"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sealing, "ROW_GROUP", row_group)
        patch.setattr("mburst.sql.writer.TOGETHER", together)
        writer = TableWriter(store.path, table, host, rack, roll_rows=roll_rows)
        wanted: Counter[tuple[Any, ...]] = Counter()
        for batch in given_batches:
            writer.append(batch)
            wanted += as_rows(batch)
        shows_last = table in (
            "recordings",
            "gaps",
            "canary",
            "thinned",
            "names",
        )  # of what has several rows: count what is below the view
        if not shows_last:
            assert stored(store, table) == wanted
        writer.close()
    if not shows_last:
        assert stored(store, table) == wanted
    files = sealed_files(store, table)
    assert sum((as_rows(pq.read_table(path, partitioning=None)) for path in files), Counter()) == wanted
    assert hot_logs(store, table) == []
    for path in files:
        check_sealed(path, store.path, table, rack)


def check_sealed(path: Path, store: Path, table: str, rack: str) -> None:
    """Asserts that a file has one date and rack, and that each of its row groups is in order."""
    _, date, rack_name, _ = path.relative_to(store).parts
    assert rack_name == filenames.rack_folder(rack)
    file = pq.ParquetFile(path)
    for group in range(file.num_row_groups):
        content = file.read_row_group(group).to_pylist()
        keys = [tuple(row[name] for name in ORDER[table]) for row in content]
        assert keys == sorted(keys)
        days = {filenames.date_folder(key[-1] // DAY) for key in keys}
        assert date in (filenames.MIXED, *days) and (len(days) == 1 or date == filenames.MIXED)
        name = filenames.SealedName.parse(path.name)
        times = [key[-1] for key in keys]
        assert name is not None and name.first_ns <= min(times) and max(times) <= name.last_ns


def test_many_small_batches_are_held_as_few_tables(tmp_path: Path) -> None:
    """An Arrow table costs 20 kB: without this, 15 minutes of twenty batches of bins a second took 400 MB."""
    store = StoreFolder.create(tmp_path / "store")
    one = rows("bins", {})
    with store.writer("bins", "cache-1", "r1") as writer:
        for number in range(700):
            writer.append(one.set_column(6, "ts_ns", pa.array([T0 + number], pa.int64())))
        assert writer._segment is not None and len(writer._segment._pending) == 2 + 700 % 256
    assert [row[6] for row in sorted(stored(store, "bins"), key=str)] == [T0 + number for number in range(700)]


def test_dictionaries_may_change_from_batch_to_batch(tmp_path: Path) -> None:
    store = StoreFolder.create(tmp_path)
    kind = pa.dictionary(pa.int32(), pa.string())
    with store.writer("sources", host="cache-1", rack="r1") as writer:
        for at, names in enumerate((["a", "b"], ["c"], ["b", "d", "a"])):
            batch = rows(
                "sources", *({"ts_ns": T0 + at, "source": name, "first_ns": 0, "last_ns": 0} for name in names)
            )
            index = batch.schema.get_field_index("source")
            writer.append(batch.set_column(index, pa.field("source", kind, False), batch.column("source").cast(kind)))
        assert [row[7] for row in sorted(stored(store, "sources"))] == ["a", "b", "c", "a", "b", "d"]
    assert [row[7] for row in sorted(stored(store, "sources"))] == ["a", "b", "c", "a", "b", "d"]


def test_the_first_batch_may_be_plain_and_the_next_encoded(tmp_path: Path) -> None:
    store = StoreFolder.create(tmp_path)
    plain = rows("bins", {"ts_ns": T0})
    encoded = pa.table(
        {
            name: column.combine_chunks().dictionary_encode() if column.type == pa.string() else column
            for name, column in zip(plain.column_names, plain.columns, strict=True)
        }
    )
    with store.writer("bins", host="cache-1", rack="r1") as writer:
        writer.append(plain)
        writer.append(encoded)
    assert list(stored(store, "bins").values()) == [2]


def test_missing_nullable_columns_are_null_and_their_order_does_not_matter(tmp_path: Path) -> None:
    store = StoreFolder.create(tmp_path)
    full = rows("probes", {"tx_ns": T0})
    names = [column.name for column in columns("probes") if not column.nullable]
    with store.writer("probes") as writer:
        writer.append(full.select(names[::-1]))
    assert stored(store, "probes") == as_rows(full)


@pytest.mark.parametrize(
    "batch",
    [
        rows("bins", {"ts_ns": T0}).drop_columns(["ts_ns"]),
        rows("bins", {"ts_ns": T0}).append_column("colour", [["red"]]),
        rows("bins", {"ts_ns": T0, "rack": "r2"}),
        rows("bins", {"ts_ns": T0, "host": "cache-2"}),
        rows("bins", {"ts_ns": T0}).set_column(6, "ts_ns", pa.array([None], pa.int64())),
    ],
)
def test_rows_of_another_schema_are_refused_before_any_is_written(tmp_path: Path, batch: pa.Table) -> None:
    store = StoreFolder.create(tmp_path)
    with store.writer("bins", host="cache-1", rack="r1") as writer:
        writer.append(rows("bins", {"ts_ns": T0}))
        with pytest.raises(ValueError):
            writer.append(batch)
        writer.append(rows("bins", {"ts_ns": T0 + 1}))
    assert sum(stored(store, "bins").values()) == 2


def test_a_writer_without_rows_leaves_nothing(tmp_path: Path) -> None:
    store = StoreFolder.create(tmp_path)
    with store.writer("bins", host="cache-1", rack="r1") as writer:
        writer.append(rows("bins"))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["mburst.json", "replaced"]


def test_a_closed_writer_refuses_rows(tmp_path: Path) -> None:
    writer = StoreFolder.create(tmp_path).writer("bins", host="cache-1", rack="r1")
    writer.close()
    writer.close()
    with pytest.raises(ValueError, match="closed"):
        writer.append(rows("bins", {"ts_ns": T0}))


# --- reading --------------------------------------------------------------------------------------------------------


def test_writers_side_by_side_are_read_together(tmp_path: Path) -> None:
    store = StoreFolder.create(tmp_path)
    with store.writer("bins", host="a", rack="r1") as one, store.writer("bins", host="b", rack="r2") as two:
        one.append(rows("bins", {"ts_ns": T0, "host": "a"}))
        two.append(rows("bins", {"ts_ns": T0, "host": "b", "rack": "r2"}, {"ts_ns": T0 + 1, "host": "b", "rack": "r2"}))
        assert Counter(row[1] for row in stored(store, "bins").elements()) == {"a": 1, "b": 2}
    assert Counter(row[1] for row in stored(store, "bins").elements()) == {"a": 1, "b": 2}


def test_the_last_row_of_a_recording_counts(tmp_path: Path) -> None:
    store = StoreFolder.create(tmp_path)
    write(
        store,
        "recordings",
        {"recording_id": "a", "complete": False, "written_ns": 5},
        {"recording_id": "b", "complete": False, "written_ns": 6},
    )
    write(store, "recordings", {"recording_id": "a", "complete": True, "written_ns": 7, "packets": 9})
    connection = store.connect()
    kept = connection.execute("SELECT recording_id, complete, packets FROM recordings ORDER BY recording_id")
    assert kept.fetchall() == [("a", True, 9), ("b", False, 1)]


def test_connect_narrows_to_racks_and_days_without_losing_requested_rows(tmp_path: Path) -> None:
    store = StoreFolder.create(tmp_path)
    write(store, "recordings", {"written_ns": T0 + 300 * DAY})
    for rack in ("r1", "r 2/ä"):
        for day in range(9):
            write(store, "bins", {"ts_ns": T0 + day * DAY, "rack": rack})
    for day in range(9):
        write(store, "probes", {"tx_ns": T0 + day * DAY})

    def days(table: str, **narrow: Any) -> set[int]:
        time = {"bins": "ts_ns", "probes": "tx_ns"}[table]
        found = store.connect(**narrow).execute(f"SELECT DISTINCT ({time} - {T0}) // {DAY} FROM {table}").fetchall()
        return {day for (day,) in found}

    assert days("bins", since_ns=T0 + 3 * DAY, until_ns=T0 + 5 * DAY) == {3, 4, 5}
    assert days("probes", rack="r1", since_ns=T0 + 7 * DAY) == {7, 8}
    assert store.connect(rack="r 2/ä").execute("SELECT DISTINCT rack FROM bins").fetchall() == [("r 2/ä",)]
    assert store.connect(rack="none").execute("SELECT count(*) FROM bins").fetchall() == [(0,)]
    assert store.connect(since_ns=T0).execute("SELECT count(*) FROM recordings").fetchall() == [(1,)]


def test_a_reader_that_is_overtaken_by_a_seal_lists_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = StoreFolder.create(tmp_path)
    writer = store.writer("bins", host="cache-1", rack="r1")
    writer.append(rows("bins", {"ts_ns": T0}))
    reading = segments.read_log

    def sealed_meanwhile(path: Path) -> Any:
        writer.close()
        return reading(path)

    monkeypatch.setattr(segments, "read_log", sealed_meanwhile)
    assert sum(stored(store, "bins").values()) == 1


def test_sealed_files_of_a_hot_segment_do_not_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = StoreFolder.create(tmp_path)
    writer = store.writer("bins", host="cache-1", rack="r1")
    writer.append(rows("bins", {"ts_ns": T0}, {"ts_ns": T0 + DAY}))
    seen = []

    def look(log: HotLog) -> None:
        assert len(sealed_files(store, "bins")) == 2
        seen.append(sum(stored(store, "bins").values()))
        log.path.unlink()

    monkeypatch.setattr(HotLog, "remove", look)
    writer.close()
    assert seen == [2]
    assert sum(stored(store, "bins").values()) == 2


def test_the_rows_of_a_reader_stay_readable_after_a_seal(tmp_path: Path) -> None:
    store = StoreFolder.create(tmp_path)
    writer = store.writer("bins", host="cache-1", rack="r1")
    writer.append(rows("bins", {"ts_ns": T0}))
    connection = store.connect()
    writer.close()
    assert connection.execute("SELECT count(*) FROM bins").fetchall() == [(1,)]


# --- damage ---------------------------------------------------------------------------------------------------------


def test_a_torn_last_batch_is_left_out_wherever_it_is_cut(tmp_path: Path) -> None:
    store = StoreFolder.create(tmp_path)
    writer = store.writer("bins", host="cache-1", rack="r1")
    writer.append(rows("bins", {"ts_ns": T0}))
    (path,) = hot_logs(store, "bins")
    whole = path.stat().st_size
    writer.append(rows("bins", {"ts_ns": T0 + 1}, {"ts_ns": T0 + 2}))
    content = path.read_bytes()
    writer.close()
    copy = tmp_path / path.name
    for cut in range(whole, len(content) + 1, 7):
        copy.write_bytes(content[:cut])
        log = segments.read_log(copy)
        assert log.is_sound and log.rows.num_rows == (3 if cut >= len(content) else 1)


# --- recordings -----------------------------------------------------------------------------------------------------


def attempt(store: StoreFolder, writer_id: str, in_bins: int, **row: Any) -> None:
    """Writes an attempt at recording a file: its row and a bin."""
    for table, given_row in (
        ("recordings", {"counted_segments": 0, "packets": 0, "end_ns": None, **row}),
        ("bins", {"packets": in_bins, "ts_ns": T0}),
    ):
        with store.writer(table, "cache-1", "r1", writer_id) as writer:
            writer.append(rows(table, {**given_row, **({"writer_id": writer_id} if table == "recordings" else {})}))


def test_of_several_attempts_one_counts(tmp_path: Path) -> None:
    store = StoreFolder.create(tmp_path)
    attempt(store, "aaaaaaaaaaaa", 3, complete=False, written_ns=10)

    def counted() -> list[Any]:
        return (
            store.connect()
            .execute("SELECT r.packets, (SELECT sum(packets) FROM bins), complete FROM recordings r")
            .fetchall()
        )

    assert counted() == [(3, 3, False)]
    attempt(store, "bbbbbbbbbbbb", 5, complete=False, written_ns=20)
    assert counted() == [(5, 5, False)]
    attempt(store, "cccccccccccc", 7, complete=True, written_ns=30, counted_segments=None, packets=7)
    attempt(store, "dddddddddddd", 9, complete=False, written_ns=40)
    assert counted() == [(7, 7, True)]


def test_totals_of_an_unfinished_recording_come_from_its_bins(tmp_path: Path) -> None:
    store = StoreFolder.create(tmp_path)
    with TableWriter(store.path, "bins", "cache-1", "r1", "aaaaaaaaaaaa", roll_rows=1) as writer:
        for at in range(3):
            writer.append(rows("bins", {"packets": 10**at, "bytes": 2 * 10**at, "ts_ns": T0 + at * 10**6}))
        for counted, packets in ((0, 111), (1, 1110), (2, 11100), (3, 111000)):
            recording = {
                "complete": False,
                "counted_segments": counted,
                "packets": packets,
                "start_ns": T0 + 5,
                "written_ns": counted,
                "writer_id": "aaaaaaaaaaaa",
            }
            write(store, "recordings", recording)
            totals = (
                store.connect(since_ns=T0 + 300 * DAY)
                .execute("SELECT packets, bytes, start_ns, end_ns FROM recordings")
                .fetchall()
            )
            beyond = [10**at for at in range(counted, 3)]
            end_ns = T0 + 3 * 10**6 if beyond else None
            assert totals == [(packets + sum(beyond), 2 * sum(beyond), T0 + 5, end_ns)]


# --- order and size -------------------------------------------------------------------------------------------------


def test_rows_of_many_days_hold_one_file_open_at_a_time(tmp_path: Path) -> None:
    store = StoreFolder.create(tmp_path)
    before = len(os.listdir("/proc/self/fd"))
    given_rows = [{"ts_ns": T0 + day * DAY} for day in range(300)]
    with store.writer("bins", host="cache-1", rack="r1") as writer:
        writer.append(rows("bins", *given_rows))
        writer.append(rows("bins", *reversed(given_rows)))
    assert len(os.listdir("/proc/self/fd")) <= before + 2
    assert sum(stored(store, "bins").values()) == 600
    assert len(sealed_files(store, "bins")) == 1  # a packet a day does not make a folder a day


@pytest.mark.parametrize("host", ["", "..", "a/b", "x" * 300, "ä" * 99, "cache-1.example.com", "a.0.parquet"])
def test_any_host_makes_a_file_name(tmp_path: Path, host: str) -> None:
    store = StoreFolder.create(tmp_path)
    write(store, "bins", {"ts_ns": T0, "host": host, "rack": ".."})
    assert [row[1:3] for row in stored(store, "bins")] == [(host, "..")]


def test_columns_have_the_encodings_that_the_bench_measured(tmp_path: Path) -> None:
    store = StoreFolder.create(tmp_path)
    write(store, "bins", *({"ts_ns": T0 + at * 10_000, "wire_bytes": at % 7} for at in range(1000)))
    (path,) = sealed_files(store, "bins")
    group = pq.ParquetFile(path).metadata.row_group(0)
    packed = {group.column(i).path_in_schema: group.column(i) for i in range(group.num_columns)}
    assert "DELTA_BINARY_PACKED" in packed["ts_ns"].encodings
    assert packed["recording_id"].compression == "ZSTD" and packed["recording_id"].has_dictionary_page
    assert packed["wire_bytes"].statistics.max == 6


def test_a_rack_too_long_for_a_folder_name_is_refused_at_the_start(tmp_path: Path) -> None:
    store = StoreFolder.create(tmp_path / "store")
    with pytest.raises(UsageError, match="longer than 250 bytes in a file name"):
        TableWriter(store.path, "bins", "cache-1", 100 * "é")
    assert hot_logs(store, "bins") == []
