"""Makes a small store with the mburst that is imported, and what that mburst reads in it: python make.py FOLDER.

The stores in this folder are of releases whose stores later ones must read; each was made by this script in a checkout
of its commit (`PYTHONPATH=CHECKOUT python make.py FOLDER`, after `python setup.py build_ext --inplace` there):

- format-1-c3d7337: format 1, before sources had ports and probes a clock error
- format-1: format 1 as it was last, at commit f767ba1
- format-2: format 2 as it began, before recordings had `ended` and what their counters say, and without gaps
- format-2-f835f3c: format 2 with these
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

import pyarrow as pa

from mburst.__main__ import main
from mburst.lab.simulate import Scenario, simulate
from mburst.sql import StoreFolder
from mburst.sql.tables import ORDER, arrow_schema

T0 = 1_790_000_000 * 10**9
SCENARIO = Scenario(
    seed=3,
    start_ns=T0,
    rounds=3,
    period_ns=20_000_000,
    senders=6,
    bytes_per_sender=20_000,
    background=0.0,
    both_directions=False,
)
KILLED = {"host": "cache-2"}
TORN_BYTES = 40  # that are cut off the end of a hot log, in the middle of its last batch


def make(folder: Path) -> None:
    """The store, and expected.json in it."""
    store = folder / "store"
    with tempfile.TemporaryDirectory() as scratch:
        case = simulate(SCENARIO).write(Path(scratch))
        run(
            [
                "record",
                str(case["cache"]),
                "-o",
                str(store),
                "--link",
                "1G",
                "--bin",
                "1ms",
                "--host",
                "cache-1",
                "--rack",
                "r 1",
            ]
        )
        run(["import", "probes", str(case["probes"]), "-o", str(store)])
        run(["import", "queues", str(case["queues-1ms"]), "-o", str(store)])
    for table in ORDER:
        if table in (
            "ports",
            "buffers",
            "links",
            "leaves",
            "collection",
            "gnmi_values",
            "gnmi_events",
            "device_clocks",
            "clock",
            "gaps",
        ):
            rack = "r 1" if table in ("links", "clock", "gaps") else ""
            with StoreFolder.open(store).writer(table, host="cache-1", rack=rack) as writer:
                writer.append(pa.Table.from_pylist([row(table, at) for at in (0, 86_400 * 10**9)], arrow_schema(table)))
    killed(store)
    (folder / "expected.json").write_text(
        json.dumps(expected(StoreFolder.open(store)), indent=1, sort_keys=True) + "\n"
    )


def run(argv: list[str]) -> None:
    """A verb. It must work."""
    if code := main(argv):
        sys.exit(code)


def row(table: str, later_ns: int) -> dict[str, Any]:
    """A row with something in every column."""
    values: dict[str, Any] = {"string": "x", "bool": True, "int64": 7, "uint32": 7, "uint16": 7}
    known = {"host": "cache-1", "rack": "r 1"}
    return {
        field.name: known.get(field.name, T0 + later_ns if field.name.endswith("_ns") else values[str(field.type)])
        for field in arrow_schema(table)
    }


def killed(store: Path) -> None:
    """What a recorder that is killed leaves: a row that counts a part of the first bins, bins in two batches, the
    second of which is torn, and sources."""
    runs = "runs" if "runs" in ORDER else "recordings"
    tables = {}
    with StoreFolder.open(store).connect() as con:
        for table in (runs, "bins", "sources"):
            tables[table] = [changed(one) for one in con.sql(f"FROM {table}").to_arrow_table().to_pylist()]
    if os.fork() == 0:
        opened = StoreFolder.open(store)
        ids = {"writer_id": tables[runs][0]["writer_id"]} if "writer_id" in tables[runs][0] else {}
        for table, rows in tables.items():
            writer = opened.writer(table, host="cache-2", rack="r 1", **ids)
            for part in (rows[:3], rows[3:6]) if table != runs else (rows,):
                writer.append(pa.Table.from_pylist(part, arrow_schema(table)))
        os._exit(0)
    os.wait()
    for log in (store / "hot" / "bins").iterdir():
        os.truncate(log, log.stat().st_size - TORN_BYTES)


def changed(row: dict[str, Any]) -> dict[str, Any]:
    """The row as one of the recording that is killed."""
    ids = {name: f"killed-{row[name]}" for name in ("run", "recording_id", "capture", "capture_id") if name in row}
    new = (
        {
            "complete": False,
            "packets": 5,
            "bytes": 5,
            "wire_bytes": 5,
            "writer_id": "0123456789ab",
            "counted_segments": 0,
        }
        if "complete" in row
        else {}
    )
    if "writer_id" in row:
        new |= dict.fromkeys(("packets", "bytes", "wire_bytes"), 0)
    return row | ids | KILLED | {name: value for name, value in new.items() if name in row}


def expected(store: StoreFolder) -> dict[str, dict[str, int]]:
    """Of each table, how many rows it has and the sum of each column of integers."""
    found = {}
    with store.connect() as con:
        for table in ORDER:
            sums = [f.name for f in arrow_schema(table) if str(f.type) in ("int64", "uint32", "uint16")]
            # A name of an older format's keeps its name here: the test knows what became of it.
            names = ", ".join(f"CAST(coalesce(sum({name}), 0) AS VARCHAR)" for name in sums)
            [counts] = con.execute(f"SELECT count(*), {names} FROM {table}").fetchall()
            found[table] = {"rows": counts[0], **{name: int(n) for name, n in zip(sums, counts[1:], strict=True)}}
    return found


if __name__ == "__main__":
    make(Path(sys.argv[1]))
