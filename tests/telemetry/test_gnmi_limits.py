"""Bounds on what a device can make this host store, and on how long it can keep it busy: a signal ends the collection
at any time."""

from __future__ import annotations

import contextlib
import itertools
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from gnmilib import T0, Fed, S, Target, config, notification, query
from hypothesis import given, settings
from hypothesis import strategies as st
from profiles import times
from test_gnmi_hostile import (
    DEPTH,
    LANZ,
    NEIGHBOUR,
    SECRET,
    Raw,
    js,
    known,
    note_bytes,
    path_bytes,
    plain,
    steady,
    update_bytes,
)
from test_gnmi_messages import field
from waiting import wait_for

from mburst.sql import StoreFolder
from mburst.sql.follow import TableFollower
from mburst.telemetry.gnmi import limits, messages
from mburst.telemetry.gnmi.rows import CollectedRows, CollectionEnded


class Small(Fed):
    """A device that may have few paths."""

    def __init__(self, most: int = 50) -> None:
        super().__init__()
        self.device.most_paths = most


@pytest.mark.parametrize("path", ["/x{}", "/x[k={}]/y", NEIGHBOUR, DEPTH.replace("e1", "{}"),
                                  "/interfaces/interface[name={}]/state/counters/last-clear"])  # fmt: skip
def test_paths_beyond_the_most_are_dropped_and_counted(path):
    fed = Small()
    for number in range(200):
        fed.feed(notification(T0 + number, {path.format(number): 1}))
    taken = fed.take()
    assert fed.device.paths <= 50 and fed.device.overflowed
    assert sum(row["amount"] for row in taken["gnmi_events"] if row["event"] == "dropped") == 150
    assert all(len(part) <= 51 for part in (fed.stream._leaves, fed.stream._entities, fed.device.cleared))
    assert all(len(table.texts["device"]) <= 51 for table in fed.rows.tables.values())
    again = fed.feed(notification(T0 + S, {path.format(0): "other", path.format(777): 1})).take()
    assert any(row["event"] == "dropped" and row["amount"] == 1 for row in again["gnmi_events"])


def test_records_that_keep_naming_new_queues_are_bounded():
    fed = Small()
    fed.device.tables = Fed("arista").device.tables
    for number in range(200):
        record = {"intfName": f"e{number}", "trafficClass": "1", "timestamp": T0 // 1000, "queueSize": 5}
        fed.feed(notification(T0 + number * S, {LANZ: record}))
    taken = fed.take()
    assert 0 < len(taken["queues"]) <= 50 and len(fed.stream._entities) <= 51
    assert sum(row["amount"] for row in taken["gnmi_events"] if row["event"] == "dropped") == 200 - len(taken["queues"])


def test_a_neighbour_that_changes_without_end_gives_few_rows(monkeypatch):
    """Once there is room, the final state is reported unasked."""
    monkeypatch.setattr(limits, "LINKS", 20)
    fed = Fed()
    for number in range(500):
        fed.feed(notification(T0 + number, {NEIGHBOUR.format(1): f"h{number}"}))
    taken = fed.take()
    assert len(taken["links"]) <= 20 + 1
    assert sum(row["amount"] for row in taken["gnmi_events"] if row["event"] == "dropped") == 489
    fed.stream.settle()
    [gone, there] = fed.take()["links"]
    assert (gone["host"], gone["present"], there["host"], there["present"]) == ("h10", False, "h499", True)


def test_long_paths_count_as_several():
    fed = Small()
    for number in range(20):
        fed.feed(notification(T0, {f"/{'x' * 1050}{number}": 1}))
    assert len(fed.stream._leaves) == 10 and fed.device.paths == 50


@pytest.mark.parametrize("path", ["/x[k={}]/y", NEIGHBOUR, DEPTH.replace("e1", "{}")])
def test_deleted_paths_make_room(path):
    """A device on which paths come and go for months never becomes full because of that."""
    fed = Small()
    seen = 0
    for number in range(500):
        fed.feed(notification(T0 + number * S, {path.format(number): 7}))
        fed.feed(notification(T0 + number * S + 1, {}, deletes=[path.format(number).rpartition("/")[0]]))
        seen += sum(len(rows) for table, rows in fed.take().items() if table in ("gnmi_values", "links", "queues"))
    assert not fed.device.overflowed and fed.device.paths <= 50 and seen >= 500
    assert all(len(table.texts["device"]) <= 51 for table in fed.rows.tables.values())
    fed.stream.close()
    fed.take()
    assert fed.device.paths == 0 and not fed.device.streams
    assert all(len(table._free) == len(table.texts["device"]) for table in fed.rows.tables.values())


def test_a_waiter_for_the_lock_gets_it_next():
    """This holds even if the holder would take it again at once."""
    rows, taken = CollectedRows(), 0

    def hold() -> None:
        with rows.lock, contextlib.suppress(CollectionEnded):
            while True:
                rows.breathe()

    thread = threading.Thread(target=hold)
    thread.start()
    for _ in range(200):
        with rows.lock:
            taken += 1
    rows.ending = True
    thread.join(30)
    assert taken == 200 and not thread.is_alive()


def test_waiting_rows_are_bounded_by_back_pressure(monkeypatch):
    """The reader waits until rows are taken out, and notices the end of the collection while it waits."""
    monkeypatch.setattr("mburst.telemetry.gnmi.rows.WAITING_ROWS", 1000)
    monkeypatch.setattr("mburst.telemetry.gnmi.rows.LOOK_EVERY", 1)
    fed, most, taken = Fed(), 0, 0
    fed.device.most_paths = 10**6
    raw = messages.ReadNotification.FromString(note_bytes(*(update_bytes(one) for one in known(20_000))))

    def feed() -> None:
        with fed.rows.lock, contextlib.suppress(CollectionEnded):
            while True:
                fed.stream.feed(raw, T0)

    thread = threading.Thread(target=feed)
    thread.start()
    while taken < 100_000:
        with fed.rows.lock:
            most = max(most, fed.rows.waiting)
            taken += sum(rows.num_rows for _, rows in fed.rows.take())
    fed.rows.ending = True
    thread.join(30)
    assert not thread.is_alive() and most <= 1000 + 2 * limits.AT_ONCE


def test_the_stored_part_of_a_message_cut_by_the_end_is_counted():
    """Its rows are in the store: a summary without them would be wrong."""
    fed = Fed()
    fed.device.most_paths = 10**6
    raw = messages.ReadNotification.FromString(note_bytes(*(update_bytes(one) for one in known(20_000))))
    fed.rows.ending = True  # noticed at the first breath
    with fed.rows.lock, pytest.raises(CollectionEnded):
        fed.stream.feed(raw, T0)
    assert (fed.device.messages, fed.device.values) == (1, limits.AT_ONCE)
    assert sum(rows.num_rows for _, rows in fed.rows.take()) == limits.AT_ONCE


@settings(deadline=None, max_examples=60)
@given(st.lists(st.tuples(st.integers(0, 30), st.booleans()), max_size=120))
def test_rows_are_of_the_path_that_they_say_however_often_numbers_change_hands(steps):
    fed, now = Small(12), T0
    expected: list[tuple[str, str]] = []
    for number, delete in steps:
        now += S
        path = f"/x[k={number}]/y"
        if delete:
            fed.feed(notification(now, {}, deletes=[path]))
        else:
            refused = fed.device._counted.total()
            fed.feed(notification(now, {path: number}))
            if fed.device._counted.total() == refused:
                expected.append((path, str(number)))
    rows = [(row["path"], row["value"]) for row in fed.take().get("gnmi_values", ()) if not row["deleted"]]
    assert rows == expected


def test_many_encodings_of_a_path_are_one_path_and_cost_no_memory(monkeypatch):
    """Unknown fields give the same path other bytes."""
    monkeypatch.setattr(limits, "CACHE_BYTES", 100_000)
    fed = Fed()
    for number in range(2000):
        spelt = path_bytes("/a/b") + field(9, number)
        raw = note_bytes(update_bytes(spelt), prefix=path_bytes("/p") + field(9, number % 100))
        fed.stream.feed(messages.ReadNotification.FromString(raw), T0)
    assert fed.device.paths == 1 and len(fed.take()["gnmi_values"]) == 2000
    assert sum(1 + len(cache) for _, cache in fed.stream._prefixes.values()) < 500


def test_values_that_were_not_understood_give_few_rows():
    fed = Fed()
    for number in range(1000):
        fed.feed(notification(T0 + number, {DEPTH.replace("e1", f"e{number}"): SECRET, "/a/b": {"x": [number]}}))
    taken = fed.take()
    events = [row for row in taken["gnmi_events"] if row["event"] == "not-understood"]
    assert len(events) <= limits.DETAILS + 1 and sum(row["amount"] for row in events) == 1000
    assert not any(SECRET in row["detail"] for row in taken["gnmi_events"])


# --- floods ---------------------------------------------------------------------------------------------------------


def leaves_and_deletes() -> Iterator[bytes]:
    """Sends 20,000 leaves, then 20,000 deletes of half a megabyte, again and again."""
    paths = known(20_000)
    yield note_bytes(*(update_bytes(path) for path in paths), ts_ns=time.time_ns())
    deletes = tuple(path_bytes(f"/x[k={number}]/z") for number in range(20_000))
    while True:
        yield note_bytes(deletes=deletes, ts_ns=time.time_ns())


def new_paths() -> Iterator[bytes]:
    for first in itertools.count(0, 1000):
        paths = [path_bytes(f"/x{number}/y") for number in range(first, first + 1000)]
        yield note_bytes(*(update_bytes(path) for path in paths), ts_ns=time.time_ns())


def new_neighbours() -> Iterator[bytes]:
    for first in itertools.count(0, 500):
        paths = [path_bytes(NEIGHBOUR.format(number)) for number in range(first, first + 500)]
        yield note_bytes(*(update_bytes(path, field(1, b"h%d" % first)) for path in paths), ts_ns=time.time_ns())


def names_that_change() -> Iterator[bytes]:
    path = path_bytes(NEIGHBOUR.format(1))
    for number in itertools.count():
        parts = [update_bytes(path, field(1, b"h%d-%d" % (number, part))) for part in range(1000)]
        yield note_bytes(*parts, ts_ns=time.time_ns())


def bad_values() -> Iterator[bytes]:
    for first in itertools.count(0, 500):
        paths = [path_bytes(DEPTH.replace("e1", f"e{number}")) for number in range(first, first + 500)]
        yield note_bytes(*(update_bytes(path, field(1, b"n/a")) for path in paths), ts_ns=0)


def large_messages() -> Iterator[bytes]:
    """Sends messages of 15 MB: of the shortest updates, of lists, of JSON, of texts."""
    path = path_bytes("/a")
    size = 15 << 20
    kinds = [
        field(4, b"") * (size // 2),
        field(5, b"") * (size // 2),
        field(4, update_bytes(path, field(8, field(1, b"") * (size // 2)))),
        field(4, update_bytes(path, js("[" + "[]," * (size // 3) + "1]"))),
        b"".join(field(4, update_bytes(path, field(1, b"x" * 200_000))) for _ in range(75)),
        b"".join(field(4, update_bytes(path, js("[" + "{}," * 150_000 + "1]"))) for _ in range(30)),
    ]
    for part in itertools.cycle(kinds):
        yield field(1, time.time_ns()) + part


SMALL = (new_paths, new_neighbours, names_that_change, bad_values)
TOGETHER = [SMALL, (leaves_and_deletes,), (large_messages,)]
FLOODS = TOGETHER if times() == 1 else [*TOGETHER, *((flood,) for flood in SMALL)]


def sending(flood: Callable[[], Iterator[bytes]]) -> Target:
    """Returns a target that only sends this flood."""

    async def script(request: Any, context: Any) -> AsyncIterator[Any]:
        for made in flood():
            yield Raw(made)

    return Target(script)


@pytest.mark.parametrize("floods", FLOODS, ids=lambda floods: "+".join(flood.__name__ for flood in floods))
def test_a_flood_does_not_end_others_and_a_signal_ends_it(tmp_path, floods):
    """Flooding targets only send, and nothing that they send keeps the values of another target from the store."""
    with contextlib.ExitStack() as stack:
        bad = {flood.__name__.replace("_", "-"): stack.enter_context(sending(flood)) for flood in floods}
        good = stack.enter_context(Target(steady))
        path = tmp_path / "gnmi.yaml"
        targets = {name: plain(target.port) for name, target in {**bad, "good": good}.items()}
        path.write_text(config(**targets) + "mburst: {buffer: 64M}\n")
        seen = Seen(tmp_path / "store")
        command = [sys.executable, "-m", "mburst", "collect", str(path), "-o", str(tmp_path / "store")]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        try:
            wait_for(lambda: seen.good_rows() >= 100, "100 values of the good target")
            wait_for(lambda: seen.devices() >= bad.keys(), "something of each flood")
            time.sleep(1)  # the floods go on for a second
            status = Path(f"/proc/{process.pid}/status").read_text()
            process.send_signal(signal.SIGINT)
            begun = time.monotonic()
            out, err = process.communicate(timeout=60)
            took = time.monotonic() - begun
        finally:
            process.kill()
            process.wait()
    most_kb = int(re.search(r"VmHWM:\s+(\d+) kB", status)[1])
    print(f"{', '.join(bad)}: {most_kb >> 10} MB, ended after {took:.2f} s; {out} {err}")
    assert process.returncode == 130 and "Traceback" not in err, err
    assert most_kb < 1 << 20
    messages_of = dict(re.findall(r"([\w-]+): [\d,]+ values? in ([\d,]+) messages?", out))
    assert messages_of.keys() == {*bad, "good"} and "0" not in messages_of.values(), out
    ended = query(tmp_path, "SELECT device FROM gnmi_events WHERE detail = 'the collection ended'")
    assert ("good",) in ended and len(query(tmp_path, "FROM queues WHERE device = 'good'")) >= 100
    events = dict(query(tmp_path, "SELECT device, count(*) FROM gnmi_events GROUP BY device"))
    assert max(events.values()) < 1000, events


class Seen:
    """The rows that arrive in a store. The tables are followed, since queries would take processor time from the
    floods."""

    def __init__(self, store: Path) -> None:
        StoreFolder.create(store)
        self._tables = {name: TableFollower(store, name) for name in ("queues", "gnmi_values", "links", "gnmi_events")}
        self._good_rows = 0
        self._devices: set[str] = set()

    def _look(self) -> None:
        for name, table in self._tables.items():
            for rows in table.poll():
                if name == "gnmi_events":
                    rows = rows.filter(~pc.field("event").isin(["connect", "sync"]))
                devices = rows.column("device").cast(pa.string())
                self._devices |= set(devices.unique().to_pylist())
                self._good_rows += devices.to_pylist().count("good") if name == "queues" else 0

    def good_rows(self) -> int:
        """Returns the number of rows of the good target."""
        self._look()
        return self._good_rows

    def devices(self) -> set[str]:
        """Returns the devices from which a message was read."""
        self._look()
        return self._devices
