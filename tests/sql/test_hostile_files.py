"""Files that somebody else put into a store, with valid names and checksums: each is named, its rows reach nobody,
memory is bounded by the bytes of the file, and every verb ends with a line."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from storelib import rows, write

from mburst.__main__ import main
from mburst.sql import StoreFolder, verified
from mburst.sql.follow import TableFollower
from mburst.sql.format import frames
from mburst.sql.format.filenames import SealedName, date_folder, hot_path, new_segment, new_writer, rack_folder
from mburst.sql.format.placing import MOST_ROWS
from mburst.sql.tables import arrow_schema
from mburst.units import NS_PER_DAY

T = 1_700_000_000_000_000_000
SOUND = 5  # rows of bins that are not hostile
LITTLE = 100 << 20  # bytes of Arrow's memory
COUNT = "SELECT count(*) AS n, max(interface) AS i, max(rack) AS r FROM bins"


@pytest.fixture
def store(tmp_path: Path) -> StoreFolder:
    made = StoreFolder.create(tmp_path / "store")
    write(made, "recordings", {"start_ns": T, "end_ns": T + 10**9})
    write(made, "bins", *({"ts_ns": T + i * 10**6, "wire_bytes": 100} for i in range(SOUND)))
    return made


def one(**given: Any) -> pa.Table:
    return rows("bins", {"ts_ns": T, "wire_bytes": 10**9, **given})


def replaced(column: str, array: Any) -> pa.Table:
    table = one()
    return table.set_column(table.schema.get_field_index(column), column, array)


def of_one_value(count: int) -> pa.Table:
    """Returns COUNT equal rows, which take hardly a byte when encoded."""
    table = one()
    return pa.Table.from_arrays([pa.repeat(column[0], count) for column in table.columns], schema=table.schema)


# --- hot logs ---------------------------------------------------------------------------------------------------------


def stream(table: pa.Table, **options: Any) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema, options=pa.ipc.IpcWriteOptions(**options)) as out:
        out.write_table(table)
    return sink.getvalue().to_pybytes()


def patched(old: bytes, new: bytes) -> bytes:
    """Returns a batch whose interface is 77 letters z, with some of its bytes replaced."""
    raw = stream(one(interface="z" * 77))
    assert old in raw
    return raw.replace(old, new)


def offsets(end: int) -> bytes:
    return bytes(4) + end.to_bytes(4, "little")


def header(**changed: Any) -> bytes:
    return json.dumps(
        {"format": 2, "table": "bins", "host": "cache-1", "rack": "r1", "columns": len(arrow_schema("bins")), **changed}
    ).encode()


def put_log(store: StoreFolder, payloads: list[bytes], about: bytes) -> Path:
    segment = new_segment("cache-1", new_writer(), 0)
    path = hot_path(store.path, "bins", segment)
    path.parent.mkdir(parents=True, exist_ok=True)
    seed = frames.seed_of(segment.name)
    path.write_bytes(
        b"".join(
            frames.header(number, payload, seed) + payload + frames.padding(len(payload))
            for number, payload in enumerate([about, *payloads])
        )
    )
    return path


OUTSIDE = pa.DictionaryArray.from_arrays(pa.array([10**6], pa.int32()), pa.array(["in"]), safe=False)
HOLE = pa.DictionaryArray.from_arrays(pa.array([0], pa.int32()), pa.array([None, "in"], pa.string()))
BATCHES: dict[str, Callable[[], list[bytes]]] = {
    "no Arrow": lambda: [b"hello"],
    "nothing": lambda: [b""],
    "an index outside of its dictionary": lambda: [stream(replaced("direction", OUTSIDE))],
    "NULL in a dictionary": lambda: [stream(replaced("direction", HOLE))],
    "an offset outside of its text": lambda: [patched(offsets(77), offsets(10**6))],
    "an offset of two gigabytes": lambda: [patched(offsets(77), offsets(2**31 - 1))],
    "no UTF-8": lambda: [patched(b"z" * 77, b"\xff" * 77)],
    "text for numbers": lambda: [stream(replaced("bytes", pa.array(["x"])))],
    "nested": lambda: [stream(replaced("bytes", pa.array([[{"a": [1]}]])))],
    "a dictionary of numbers": lambda: [stream(replaced("bytes", pa.array([1]).dictionary_encode()))],
    "no column": lambda: [stream(one().drop_columns(["bytes"]))],
    "no columns": lambda: [stream(pa.table({}))],
    "no time": lambda: [stream(replaced("ts_ns", pa.nulls(1, pa.int64())))],
    "a column twice": lambda: [
        stream(pa.Table.from_arrays([*one().columns, one().column(0)], names=[*one().column_names, "recording_id"]))
    ],
    "a nested column of a newer mburst": lambda: [stream(one().append_column("new", pa.array([[1]])))],
    "two schemas": lambda: [stream(one()), stream(replaced("host", pa.array(["cache-1"]).dictionary_encode()))],
    "compressed": lambda: [stream(of_one_value(1_000_000), compression="zstd")],
    "a compressed dictionary": lambda: [
        stream(replaced("direction", pa.array(["z" * 10**8]).dictionary_encode()), compression="lz4")
    ],
}
HEADERS = {
    "no JSON": b"{",
    "a list": b"[]",
    "deep": b"[" * 100_000,
    "no table of ours": header(table="nope"),
    "a table that is not a text": header(table={}),
    "a rack that is not a text": header(rack=3),
    "a rack too long": header(rack="x" * 5000),
    "columns that are not a number": header(columns=None),
    "half a letter": header(host=chr(0xD800)),
    "another table": header(table="sources"),
}


def named(err: str, path: Path) -> bool:
    """Returns whether exactly one line names the file, and all lines are ours."""
    lines = err.splitlines()
    return sum(str(path) in line for line in lines) == 1 and all(line.startswith("mburst: ") for line in lines)


def aside(store: StoreFolder, path: Path) -> Path:
    """Returns where a repair moves the file at PATH."""
    return store.path / "damaged" / path.relative_to(store.path)


def count(store: StoreFolder, capsys: Any) -> tuple[int, str]:
    """Returns the number of rows of bins by `mburst sql`, and its other output."""
    assert main(["sql", str(store.path), COUNT, "--json"]) in (0, 1)
    printed = capsys.readouterr()
    [row] = json.loads(printed.out)
    assert "z" not in (row["i"] or "") and row["r"] == "r1"
    return row["n"], printed.err


def every_verb_names(store: StoreFolder, paths: list[Path], capsys: Any, sound: int) -> None:
    """Asserts that verbs that query or check name all of PATHS and continue, and that after a repair the files that
    were set aside are named."""
    pool = pa.default_memory_pool()
    before = pool.bytes_allocated()
    found, err = count(store, capsys)
    assert found == sound and [path for path in paths if not named(err, path)] == [], err
    for words in (["bursts", str(store.path)], ["check", str(store.path)]):
        assert main(words) == 1
        printed = capsys.readouterr()
        assert [path for path in paths if str(path) not in printed.out + printed.err] == []
    assert pool.bytes_allocated() - before < LITTLE
    assert main(["repair", str(store.path)]) == 0
    capsys.readouterr()
    found, err = count(store, capsys)
    assert found == sound and [path for path in paths if not named(err, aside(store, path))] == [], err
    assert main(["check", str(store.path)]) == 0


def test_logs_with_foreign_content_are_named(store: StoreFolder, capsys: Any) -> None:
    tail = TableFollower(store.path, "bins")
    paths = {case: put_log(store, make(), header()) for case, make in BATCHES.items()}
    paths |= {case: put_log(store, [], text) for case, text in HEADERS.items()}
    paths["longer than any"] = put_log(store, [], header())
    os.truncate(paths["longer than any"], 1 << 40)
    followed = tail.poll()
    assert sum(table.num_rows for table in followed) == 1  # the first of the two schemas
    printed = "\n".join(tail.damage)
    assert {case for case, path in paths.items() if str(path) not in printed} == set()
    tail.close()
    every_verb_names(store, list(paths.values()), capsys, SOUND + 1)


def test_columns_of_a_newer_mburst_are_ignored_whatever_their_name(store: StoreFolder, capsys: Any) -> None:
    put_log(store, [stream(one().append_column("x\"; COPY (SELECT 1) TO 'x'; --", pa.array([1])))], header())
    assert count(store, capsys) == (SOUND + 1, "")


# --- sealed files -----------------------------------------------------------------------------------------------------


def put_sealed(store: StoreFolder, content: pa.Table | bytes, **options: Any) -> Path:
    folder = store.path / "bins" / date_folder(T // NS_PER_DAY) / rack_folder("r1")
    draft = folder / "draft"
    if isinstance(content, bytes):
        draft.write_bytes(content)
    else:
        pq.write_table(content, draft, store_schema=False, **options)
    segment, columns = new_segment("cache-1", new_writer(), 0), len(arrow_schema("bins"))
    return draft.rename(folder / SealedName(segment, 0, columns, T, T, verified.digest(draft)).name)


SEALED: dict[str, Callable[[], tuple[Any, dict[str, Any]]]] = {
    "no Parquet": lambda: (b"PAR1" + b"\xff" * 1000 + b"PAR1", {}),
    "nothing": lambda: (b"", {}),
    "a footer of two gigabytes": lambda: (b"PAR1" + (2**31 - 1).to_bytes(4, "little") + b"PAR1", {}),
    "no rows": lambda: (one().slice(0, 0), {}),
    "text for numbers": lambda: (replaced("bytes", pa.array(["x"])), {}),
    "nested": lambda: (replaced("bytes", pa.array([[{"a": [1]}]])), {}),
    "no column": lambda: (one().drop_columns(["bytes"]), {}),
    "no bounds": lambda: (one(), {"write_statistics": False}),
    "a time that is NULL": lambda: (replaced("ts_ns", pa.nulls(1, pa.int64())), {}),
    "more rows at a time than memory is for": lambda: (of_one_value(MOST_ROWS + 1), {"row_group_size": MOST_ROWS + 1}),
    "rows of another rack": lambda: (one(rack="r2"), {}),
}


def test_sealed_files_with_foreign_content_are_named(store: StoreFolder, capsys: Any) -> None:
    paths = []
    for make in SEALED.values():
        content, options = make()
        paths.append(put_sealed(store, content, **options))
        del content
    every_verb_names(store, paths, capsys, SOUND)


@pytest.mark.skipif(os.geteuid() != 0, reason="gives a ledger to another user, which takes root")
def test_root_does_not_trust_the_ledger_of_another_user(store: StoreFolder, capsys: Any) -> None:
    path = put_sealed(store, one(rack="r2"))
    verified.remember(path)
    os.chown(path.parent.parent / verified.LEDGER, 64_999, 64_999)
    assert named(count(store, capsys)[1], path)


def page_header_lost() -> bytes:
    """Returns a file with a sound footer and a damaged first page."""
    sink = pa.BufferOutputStream()
    pq.write_table(one(), sink, store_schema=False)
    content = bytearray(sink.getvalue().to_pybytes())
    content[4:40] = b"\xff" * 36
    return bytes(content)


@pytest.mark.parametrize("content", [SEALED["no Parquet"]()[0], page_header_lost()], ids=["no Parquet", "a page lost"])
def test_a_file_that_only_the_database_finds_damaged_is_named(store: StoreFolder, content: bytes, capsys: Any) -> None:
    """The owner of the store could make such a file: its ledger says that the file was verified."""
    path = put_sealed(store, content)
    verified.remember(path)
    assert main(["sql", str(store.path), "SELECT max(hash(b)) FROM bins b"]) == 1
    printed = capsys.readouterr()
    assert str(path) in printed.err and printed.err.count("\n") == 1, printed
