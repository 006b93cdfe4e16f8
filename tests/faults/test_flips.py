"""Random damage to every kind of file of a store: no sum is silently wrong, nothing crashes, no row is deleted.
MBURST_FAULTS gives the number of trials. Each is in a process and on a copy of its own."""

from __future__ import annotations

import os
import pickle
import random
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute  # imported here, so that the process of each trial need not load it
import pyarrow.parquet as pq
import pytest
from forking import exit_code_of
from outcomes import outcome
from storelib import hot_logs, rows, sealed_files, write

from mburst.errors import MburstError
from mburst.sql import StoreFolder, segments, views
from mburst.sql.format import filenames
from mburst.sql.format.hotlog import HotLog
from mburst.sql.repair.checking import check
from mburst.sql.repair.repair import repair

TRIALS = int(os.environ.get("MBURST_FAULTS", "64"))
SHARDS = 8
TABLES = ("bins", "sources", "recordings", "probes")
T0 = 1_700_000_000_000_000_000
TRIED: Counter[str] = Counter()  # trials by kind of file
PASSED: Counter[str] = Counter()
Row = tuple[Any, ...]


def in_child(work: Callable[[], object]) -> Any:
    """Returns the result of WORK, run in a process of its own, which may crash without ending this one."""
    with tempfile.TemporaryFile() as file:

        def keep() -> None:
            pickle.dump(work(), file)
            file.flush()

        code = exit_code_of(keep)
        assert code == 0, f"the process ended with {code}"
        file.seek(0)
        return pickle.load(file)


def some(table: str, chance: random.Random, count: int, host: str) -> pa.Table:
    """Returns rows that all differ."""
    number = {"bins": "bytes", "sources": "bytes", "recordings": "bytes", "probes": "rtt_ns"}[table]
    time = {"probes": "tx_ns", "recordings": "written_ns"}.get(table, "ts_ns")
    names = {"recordings": "recording_id", "sources": "source", "probes": "src"}
    return rows(
        table,
        *(
            {
                number: chance.getrandbits(40),
                time: T0 + chance.getrandbits(50),
                "host": host,
                **({names[table]: f"name-{chance.getrandbits(30)}"} if table in names else {}),
                **({"first_ns": T0, "last_ns": T0} if table == "sources" else {}),
            }
            for _ in range(count)
        ),
    )


def encoded(table: pa.Table) -> pa.Table:
    """Returns the same table with text in dictionaries, as recorders write it."""
    for index, field in enumerate(table.schema):
        if pa.types.is_string(field.type):
            column = table.column(index).dictionary_encode()
            table = table.set_column(index, pa.field(field.name, column.type, field.nullable), column)
    return table


def build(folder: Path) -> dict[str, dict[Row, str]]:
    """Creates a store with every kind of file. Returns the file of each row of each table."""
    chance = random.Random(1)
    store = StoreFolder.create(folder)
    for table in TABLES:
        for host in ("cache-1", "cache-2"):
            named = some(table, chance, 300, host)
            write(
                store,
                table,
                *(
                    {k: v for k, v in row.items() if v is not None} | {"host": host}
                    if "host" in named.column_names
                    else {k: v for k, v in row.items() if v is not None}
                    for row in named.to_pylist()
                ),
            )
        for form in (encoded, lambda rows: rows):
            log = HotLog(
                folder,
                table,
                filenames.new_segment("cache-3", filenames.new_writer(), 0),
                "r1" if table != "probes" else "",
            )
            for _ in range(4):
                log.append(form(some(table, chance, 40, "cache-3")))
            log.leave()
    store.connect()  # verifies the files, and writes the ledgers
    return {table: owners(store, table) for table in TABLES}


def owners(store: StoreFolder, table: str) -> dict[Row, str]:
    """Yields each row, and the path in the store of the file that has it."""
    found: dict[Row, str] = {}
    con = duckdb.connect()
    for path in sealed_files(store, table):
        for row in con.execute(f"FROM read_parquet('{path}', hive_partitioning = false)").fetchall():
            found[row] = str(path.relative_to(store.path))
    for log in segments.snapshot(store.path, table, segments.FileSelection()).logs:
        for row in log.rows.to_pylist():
            found[tuple(row.values())] = str(log.path.relative_to(store.path))
    return found


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, dict[str, dict[Row, str]]]]:
    folder = tmp_path_factory.mktemp("flips") / "store"
    yield folder, in_child(lambda: build(folder))
    for kind, tries in sorted(TRIED.items()):
        outcome(
            f"damage to a file of the store: {kind}",
            f"{tries:,} files",
            f"{tries - PASSED[kind]} with a wrong answer in silence, a crash or rows gone",
        )


def harm(path: Path, chance: random.Random) -> str:
    """Damages a file. Returns how."""
    data = bytearray(path.read_bytes())
    at = chance.randrange(len(data))
    kind = chance.choice(["flip", "flip", "flip", "flips", "truncate", "zero", "zero to the end", "noise", "longer"])
    if kind == "flip":
        data[at] ^= 1 << chance.randrange(8)
    elif kind == "flips":
        for _ in range(chance.randrange(2, 50)):
            data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
    elif kind == "truncate":
        del data[at:]
    elif kind == "zero":
        data[at : at + 512] = bytes(len(data[at : at + 512]))
    elif kind == "zero to the end":
        data[at:] = bytes(len(data) - at)
    elif kind == "noise":
        data[at : at + 100] = chance.randbytes(len(data[at : at + 100]))
    else:
        data += chance.randbytes(chance.randrange(1, 200))
    path.write_bytes(data)
    return kind


def read(store: StoreFolder) -> tuple[dict[str, Counter[Row]], set[str]]:
    """Returns the rows of each table, and the paths in the store of the files that are reported as damaged."""
    con = store.connect()
    named = {os.path.relpath(row[0], store.path) for row in con.execute("SELECT path FROM damaged_files").fetchall()}
    views = {table: table if table != "recordings" else "defined.all_recordings" for table in TABLES}
    return {table: Counter(con.execute(f"FROM {views[table]}").fetchall()) for table in TABLES}, named


def take(store: StoreFolder) -> tuple[dict[str, Counter[Row]], set[str]]:
    """Returns the same from the files behind the views of a query, in a tenth of the time of `read`."""
    found = views.contents(store.path, segments.FileSelection())
    parts = {
        table: [
            *(pq.ParquetFile(file.path).read() for file in found[table].files),
            *(log.rows for log in found[table].logs),
        ]
        for table in TABLES
    }
    named = {os.path.relpath(damaged.path, store.path) for snap in found.values() for damaged in snap.damage}
    return {
        table: Counter(row for part in parts[table] for row in zip(*part.to_pydict().values(), strict=True))
        for table in TABLES
    }, named


def problems(store: Path, harmed: Path, kind: str, known: dict[str, dict[Row, str]], mends: bool) -> list[str]:
    """Returns what is wrong with the way mburst handles the damage: when it reads the files of a query, and with MENDS
    also when it queries, seals, checks and repairs."""
    name = str(harmed.relative_to(store))
    try:
        opened = StoreFolder.open(store)
    except MburstError as error:
        assert "\n" not in str(error) and harmed.name == "mburst.json"
        if "format" in str(error).replace('{"format"', ""):
            return []  # the marker states another format
        assert not check(store).is_sound
        list(repair(store))
        found, _ = read(StoreFolder.open(store))
        return (
            ["rows are missing after the marker was repaired"]
            if any(found[table] != Counter(known[table].keys()) for table in TABLES)
            else []
        )
    found, named = read(opened) if mends else take(opened)
    wrong = differences(found, named, known, name, kind)
    return wrong + (mended(opened, harmed, found, named) if mends else [])


def mended(opened: StoreFolder, harmed: Path, found: dict[str, Counter[Row]], named: set[str]) -> list[str]:
    """Returns what is wrong with the way sealing, checking and repairing handle the damage in NAMED."""
    wrong, store, name = [], opened.path, str(harmed.relative_to(opened.path))
    before = {path: path.read_bytes() for path in [*hot_logs(opened, "bins"), harmed] if path.exists()}
    try:
        opened.seal()
    except MburstError as error:
        assert name in str(error)
    after, _ = read(opened)
    if after != found:
        wrong.append("sealing changed what is read")
    if named and harmed.suffix == ".log" and harmed.read_bytes() != before[harmed]:
        wrong.append("the damaged log was changed by sealing")
    if bool(named) == check(store).is_sound:
        wrong.append(f"check and readers, who name {named}, do not agree")
    list(repair(store))
    after, still = read(opened)
    if still != {f"damaged/{path}" for path in named} or after != found or not check(store).is_sound:
        wrong.append(f"repair: {still} is named in place of {named}, or other rows are read")
    if named and not list((store / "damaged").rglob(harmed.name)):
        wrong.append("the damaged file is gone")
    return wrong


def differences(
    found: dict[str, Counter[Row]], named: set[str], known: dict[str, dict[Row, str]], harmed: str, kind: str
) -> list[str]:
    """Returns rows that were never written, rows that are missing without a report, and undamaged files that are
    reported."""
    wrong = []
    for table in TABLES:
        if found[table] - Counter(known[table].keys()):
            wrong.append(f"{table}: rows that nobody wrote")
        lacking = {known[table][row] for row in known[table] if row not in found[table]}
        if lacking - {harmed}:
            wrong.append(f"{table}: rows of other files are missing")
        cut = kind == "truncate" and harmed.endswith(".log")  # as a killed writer leaves it
        if lacking - named and not cut:
            wrong.append(f"{table}: rows are missing in silence")
    if named - {harmed}:
        wrong.append(f"sound files are named: {named - {harmed}}")
    return wrong


def kinds(store: Path) -> dict[str, list[Path]]:
    opened = StoreFolder(store)
    return {
        "hot": [path for table in TABLES for path in hot_logs(opened, table)],
        "sealed": [path for table in TABLES for path in sealed_files(opened, table)],
        "ledger": sorted(store.rglob(".verified")),
        "marker": [store / "mburst.json"],
    }


@pytest.mark.parametrize("shard", range(SHARDS))
def test_damage_never_gives_a_wrong_answer(
    shard: int, original: tuple[Path, dict[str, dict[Row, str]]], tmp_path: Path
) -> None:
    folder, known = original
    for trial in range(shard, TRIALS, SHARDS):
        chance = random.Random(trial)
        store = tmp_path / f"store-{trial}"
        shutil.copytree(folder, store)
        which = chance.choice(["hot", "hot", "hot", "sealed", "sealed", "sealed", "ledger", "marker"])
        harmed = chance.choice(kinds(store)[which])
        kind = harm(harmed, chance)
        TRIED[which] += 1
        where = f"trial {trial}: {kind} in {harmed.relative_to(store)}"
        try:
            wrong = in_child(lambda: problems(store, harmed, kind, known, trial // SHARDS % 8 == 0))  # noqa: B023
        except AssertionError as error:
            pytest.fail(f"{where}: {error}")
        assert not wrong, f"{where}: {wrong}"
        PASSED[which] += 1
        shutil.rmtree(store)
