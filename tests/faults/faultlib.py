"""Shared by tests of faults: commands that are killed, what was acknowledged until then, and what is left afterwards.
MBURST_FAULTS=N makes N times as many tries of each fault: `make faults` runs the long set."""

from __future__ import annotations

import os
import random
import signal
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
from waiting import wait_for

from mburst.files import GRACE_S
from mburst.sql import StoreFolder
from mburst.sql.follow import TableFollower
from mburst.sql.tables import arrow_schema

HERE = Path(__file__).parent
MBURST = (sys.executable, "-m", "mburst")
SCALE = int(os.environ.get("MBURST_FAULTS", "1"))
LIMIT_S = 90.0  # after which a command counts as hung


def times(few: int) -> range:
    """Returns a range of FEW tries of a fault, times MBURST_FAULTS."""
    return range(few * SCALE)


def chance(*seed: object) -> random.Random:
    """Returns random numbers that are the same in each run of the tests."""
    return random.Random(repr(seed))


# --- commands -------------------------------------------------------------------------------------------------------


def mburst(*words: object, prefix: tuple[str, ...] = (), **options: Any) -> subprocess.CompletedProcess[str]:
    """Runs a command of mburst to its end. It must not end with a traceback or a crash."""
    done = subprocess.run(
        [*prefix, *MBURST, *map(str, words)], capture_output=True, text=True, timeout=LIMIT_S, check=False, **options
    )
    assert "Traceback" not in done.stderr and done.returncode >= 0, done
    return done


def succeed(*words: object, **options: Any) -> subprocess.CompletedProcess[str]:
    """Runs a command of mburst that must succeed."""
    done = mburst(*words, **options)
    assert done.returncode == 0, done
    return done


@contextmanager
def started(
    *words: object, prefix: tuple[str, ...] = (), program: tuple[str, ...] = MBURST, **options: Any
) -> Iterator[subprocess.Popen[str]]:
    """Runs a command of mburst in the background. It is killed at the end unless it has ended."""
    process = subprocess.Popen(
        [*prefix, *program, *map(str, words)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()


def end(process: subprocess.Popen[str], number: int | None = None) -> tuple[int, str]:
    """Waits for the end of a command, which a signal requests if one is given. Returns exit code and standard error."""
    if number is not None:
        process.send_signal(number)
    _, error = process.communicate(timeout=LIMIT_S)
    assert "Traceback" not in error, error
    return process.returncode, error


def kill(process: subprocess.Popen[str]) -> bool:
    """Sends kill -9. Returns whether the process was alive until then."""
    process.kill()
    _, error = process.communicate()
    assert "Traceback" not in error and process.returncode in (0, 1, -signal.SIGKILL), (process.returncode, error)
    return process.returncode == -signal.SIGKILL


def failure(error: str) -> str:
    """Returns the line with which a command failed. Earlier messages must be one line each, too."""
    lines = error.splitlines()
    assert lines and all(line.startswith("mburst: ") for line in lines), error
    return lines[-1]


# --- what was acknowledged ------------------------------------------------------------------------------------------


def held(store: Path, table: str) -> list[pa.Table]:
    """Returns the rows of all complete batches in the hot logs of TABLE. It parses the format of sql/format/frames.py
    independently and trusts each length, so that it also sees rows that mburst takes for damaged."""
    found = []
    for path in sorted((store / "hot" / table).glob("*.log")):
        data, at = path.read_bytes(), 0
        while len(data) - at >= 32:
            magic, number, length = struct.unpack_from("<4sIQ", data, at)
            payload = data[at + 32 : at + 32 + length]
            if magic != b"mbF2" or len(payload) < length:
                break
            if number:
                found.append(pa.ipc.open_stream(payload).read_all().cast(arrow_schema(table)))
            at += 32 + length + -length % 8
    return found


class Follower:
    """Follows tables of a store by TableFollower, every 10 ms. `rows` has the received rows by table."""

    def __init__(self, store: Path, *tables: str) -> None:
        self.rows: dict[str, list[pa.Table]] = {table: [] for table in tables}
        self.came: list[tuple[float, str, int]] = []  # monotonic time, table, rows
        self._tails = {table: TableFollower(store, table) for table in tables}
        self._failure: BaseException | None = None
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            while not self._ended.wait(0.01):
                self.look()
        except BaseException as error:
            self._failure = error

    def look(self) -> None:
        """Takes the rows that have arrived."""
        for table, tail in self._tails.items():
            for rows in tail.poll():
                self.rows[table].append(rows.cast(arrow_schema(table)))
                self.came.append((time.monotonic(), table, rows.num_rows))

    def wait(self) -> None:
        """Returns when rows of each table have arrived."""
        wait_for(lambda: all(self.rows.values()) or self._failure, "rows")

    def stop(self) -> dict[str, list[pa.Table]]:
        """Stops following. Returns the rows received until now, by table."""
        self._ended.set()
        self._thread.join(LIMIT_S)
        if self._failure:
            raise self._failure
        for tail in self._tails.values():
            tail.close()
        return self.rows


def hot_bytes(store: Path, table: str) -> int:
    """Returns the current size of the hot logs of TABLE."""
    size = 0
    for path in store.glob(f"hot/{table}/*.log"):
        with suppress(FileNotFoundError):  # it was sealed meanwhile
            size += path.stat().st_size
    return size


def wait_for_rows(store: Path, table: str, process: subprocess.Popen[Any] | None = None) -> None:
    """Returns when the hot logs of TABLE have grown, or PROCESS has ended."""
    before = hot_bytes(store, table)
    wait_for(
        lambda: hot_bytes(store, table) > before or (process is not None and process.poll() is not None),
        f"rows of {table}",
    )


# --- what is left ---------------------------------------------------------------------------------------------------


def query(store: Path, text: str) -> list[tuple[Any, ...]]:
    """Returns the rows of an answer."""
    with StoreFolder.open(store).connect() as connection:
        return connection.execute(text).fetchall()


def assert_kept(store: Path, table: str, acknowledged: list[pa.Table]) -> int:
    """Checks that each of the rows is in the store exactly once, with all its columns. Returns their number. (The rows
    of these tables all differ.)"""
    if not acknowledged:
        return 0
    names = ", ".join(arrow_schema(table).names)
    with StoreFolder.open(store).connect() as connection:
        connection.register("acknowledged", pa.concat_tables(acknowledged))
        [(count,)] = connection.execute(f"SELECT count(*) FROM (SELECT DISTINCT {names} FROM acknowledged)").fetchall()
        lost = connection.execute(f"SELECT {names} FROM acknowledged EXCEPT SELECT {names} FROM {table}").fetchall()
        doubled = connection.execute(f"SELECT {names}, count(*) AS n FROM {table} GROUP BY ALL HAVING n > 1").fetchall()
    assert (lost[:3], doubled[:3]) == ([], []), f"{table}: {len(lost)} of {count} rows lost, {len(doubled)} doubled"
    return int(count)


def assert_sealed(store: Path) -> None:
    """Checks that everything is sealed, nothing is damaged, and no leftover is there, except drafts so young that a
    process may be about to lock them."""
    left = [
        str(path.relative_to(store))
        for kind in ("*.log", "*.new", "*.tmp")
        for path in store.rglob(kind)
        if kind != "*.new" or time.time() - path.stat().st_mtime > GRACE_S
    ]
    assert (left, query(store, "SELECT path, reason FROM damaged_files")) == ([], [])


SUMS = "coalesce(sum(packets), 0)::BIGINT, coalesce(sum(bytes), 0)::BIGINT"


def sums(store: Path) -> dict[str, list[tuple[Any, ...]]]:
    """Returns packets and bytes by what the store states in three places."""
    return {table: query(store, f"SELECT {SUMS} FROM {table}") for table in ("recordings", "bins", "sources")}


def assert_totals(store: Path) -> None:
    """Checks that the totals of each recording are those of its bins."""
    differing = query(
        store,
        """
        SELECT recording_id, r.packets, r.bytes, b.packets, b.bytes
        FROM recordings r FULL JOIN (SELECT recording_id, sum(packets) AS packets, sum(bytes) AS bytes FROM bins
                                     GROUP BY ALL) b USING (recording_id)
        WHERE r.packets <> coalesce(b.packets, 0) OR r.bytes <> coalesce(b.bytes, 0) OR r.packets IS NULL""",
    )
    assert differing == []


def assert_counted(store: Path, came: int) -> None:
    """Checks that all CAME packets of the interface's counter are in bins, dropped, late, or missed in a gap."""
    [(counted, missed, unknown)] = query(
        store,
        """
        SELECT (SELECT sum(packets + dropped + late)::BIGINT FROM recordings), coalesce(sum(packets), 0)::BIGINT,
               count(*) FILTER (packets IS NULL)
        FROM gaps WHERE reason NOT IN ('dropped', 'reader too slow')""",
    )
    gaps = query(store, "SELECT reason, packets, detail FROM gaps")
    assert unknown == 0 and counted + missed == came, (came, counted, missed, gaps)
