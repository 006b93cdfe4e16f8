"""`ship` sends everything once, whatever interrupts it, and never replaces an object at the target."""

from __future__ import annotations

import random
import shutil
import threading
from pathlib import Path

import pytest
from killing import serving
from places import ROOT
from racklib import START
from s3lib import BUCKET, S3Server
from shiplib import archive, call, data, filled, has_arrived, sealed, store, sums
from storelib import rows, sealed_files, write
from waiting import wait_for
from werkzeug.wrappers import Request, Response

from mburst.fleet import bucket, receipts, ship
from mburst.fleet.receipts import files_of, read_receipts
from mburst.fleet.sealed import HostName
from mburst.fleet.ship import DifferentObject, Shipped
from mburst.fleet.target import FleetTarget, TargetError, open_target
from mburst.sql import StoreFolder, locks
from mburst.sql.repair.repair import repair
from mburst.sql.segments import HELD_NS

__all__ = ["archive", "filled", "store"]
CACHE_1 = HostName("r1", "cache-1")


@pytest.fixture(params=["bucket", "folder"])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "folder":
        return str(tmp_path / "archive")
    request.getfixturevalue("s3")
    return f"s3://{BUCKET}/prefix"


@pytest.fixture
def target(address: str) -> FleetTarget:
    return open_target(address)


def test_everything_arrives_once_and_a_receipt_states_it(store: StoreFolder, target: FleetTarget) -> None:
    first = call(store, target)
    assert sums(first) == (6, 0, 2) and not first.troubles
    has_arrived(store, target)
    assert sums(call(store, target)) == (0, 0, 0)
    [receipt] = read_receipts(target, *CACHE_1)
    assert (receipt.rack, receipt.host, receipt.level, receipt.definition) == ("r1", "cache-1", "all", None)
    assert (
        receipt.until_ns == START + 9_000_000_000 + 1 == max(f.max_ns for f in receipt.files if f.table == "bins") + 1
    )
    assert receipt.since_ns == START and receipt.missing == () == receipt.replaces
    assert {file.table: file.rows for file in receipt.files} == {"recordings": 1, "bins": 20, "sources": 10}
    write(store, "bins", {"ts_ns": START + 60 * 10**9})
    assert sums(call(store, target)) == (1, 0, 1)
    has_arrived(store, target)


def test_a_target_folder_is_a_store_that_every_verb_reads(store: StoreFolder, tmp_path: Path) -> None:
    call(store, open_target(tmp_path / "archive"))
    there = StoreFolder.open(tmp_path / "archive")
    for table in ("bins", "sources", "recordings"):
        here, arrived = (one.connect().execute(f"FROM {table} ORDER BY ALL").fetchall() for one in (store, there))
        assert here == arrived and here


def test_unsealed_rows_wait_and_no_receipt_promises_them(store: StoreFolder, target: FleetTarget) -> None:
    writer = store.writer("bins", "cache-1", "r1")
    writer.append(rows("bins", {"ts_ns": START + 5 * 10**9}))
    found = {of.name: of for of in call(store, target).hosts}
    assert found[CACHE_1].until_ns == START + 5 * 10**9 - HELD_NS
    assert found[HostName("r1", "cache-2")].until_ns == START + 9 * 10**9 + 1
    assert len(data(target)) == 6
    writer.close()
    assert sums(call(store, target))[0] == 1
    has_arrived(store, target)


def test_a_receipt_allows_for_rows_in_the_memory_of_a_running_recorder(
    store: StoreFolder, archive: FleetTarget
) -> None:
    lock = locks.acquire(store.path, "0123456789ab")
    assert lock is not None
    assert {of.until_ns for of in call(store, archive).hosts} == {START + 9 * 10**9 + 1 - HELD_NS}
    lock.end()
    assert {of.until_ns for of in call(store, archive).hosts} == {START + 9 * 10**9 + 1}


def test_the_log_of_a_dead_writer_is_sealed_and_arrives(store: StoreFolder, archive: FleetTarget) -> None:
    writer = store.writer("bins", "cache-1", "r1")
    writer.append(rows("bins", {"ts_ns": START + 5 * 10**9}))
    assert writer._segment is not None
    writer._segment.log.leave()
    assert sums(call(store, archive))[0] == 7
    has_arrived(store, archive)


@pytest.mark.parametrize("sealed_before", [[], ["live-0"]])
def test_bins_wait_for_the_row_of_their_recording(
    store: StoreFolder, archive: FleetTarget, sealed_before: list[str]
) -> None:
    """They also wait if the writer has sealed rows of other directions and has written these again to a log."""
    recordings = store.writer("recordings", "cache-1", "r1", "aaaaaaaaaaaa")
    for name in sealed_before:
        recordings.append(rows("recordings", {"recording_id": name}))
        recordings.roll()
    recordings.append(rows("recordings", *({"recording_id": name} for name in [*sealed_before, "live"])))
    wait_for(lambda: len(sealed_files(store, "recordings")) == 2 + len(sealed_before), "sealed rows")
    with store.writer("bins", "cache-1", "r1", "aaaaaaaaaaaa") as bins:
        bins.append(rows("bins", {"recording_id": "live", "ts_ns": START + 8 * 10**9}))
    [waiting] = [of for of in call(store, archive).hosts if of.name == CACHE_1]
    assert (waiting.waiting, waiting.until_ns) == (1, START + 8 * 10**9 - HELD_NS)
    assert len(data(archive)) == 6 + len(sealed_before)
    recordings.close()
    assert sums(call(store, archive))[0] == 2
    has_arrived(store, archive)


def test_selected_tables_are_shipped_with_their_recordings(store: StoreFolder, archive: FleetTarget) -> None:
    call(store, archive, tables=("bins",))
    assert {key.split("/")[0] for key in data(archive)} == {"bins", "recordings"}
    assert sums(call(store, archive))[0] == 2
    has_arrived(store, archive)


# --- the ledger -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["deleted", "torn", "empty", "other", "folder", "foreign"])
def test_a_store_that_lost_its_ledger_is_compared_and_not_sent_again(
    store: StoreFolder, archive: FleetTarget, how: str
) -> None:
    call(store, archive)
    [ledger] = (store.path / "shipped").iterdir()
    text = ledger.read_text()
    ledger.unlink()
    if how == "folder":
        ledger.mkdir()
    elif how != "deleted":
        changed = {"torn": text[: len(text) // 2], "empty": "", "other": text.replace("cache-2", "cache-3")}
        ledger.write_text(changed.get(how, "[" * 100_000))
    before = {stored.key: archive.get(stored.key) for stored in archive.list()}
    assert sums(call(store, archive)) == (0, 6, 0)
    assert {stored.key: archive.get(stored.key) for stored in archive.list()} == before
    assert sums(call(store, archive)) == ((0, 6, 0) if how == "folder" else (0, 0, 0))


def test_the_ledger_of_an_emptied_target_is_ignored(store: StoreFolder, tmp_path: Path) -> None:
    target = open_target(tmp_path / "archive")
    call(store, target)
    shutil.rmtree(tmp_path / "archive")
    assert sums(call(store, target)) == (6, 0, 2)
    has_arrived(store, target)


def test_a_read_only_store_ships(store: StoreFolder, archive: FleetTarget) -> None:
    (store.path / "shipped").write_text("in the way of the ledger")
    assert sums(call(store, archive)) == (6, 0, 2) and sums(call(store, archive)) == (0, 6, 0)
    has_arrived(store, archive)


# --- what differs, and what is damaged --------------------------------------------------------------------------------


def spoil(target: FleetTarget, key: str, content: bytes, tmp_path: Path) -> None:
    """Replaces the object at a key with CONTENT."""
    import obstore

    if isinstance(target, bucket.BucketTarget):
        obstore.put(target._store, key, content)
        return
    path = tmp_path / "archive" / key
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


@pytest.mark.parametrize("shipped_before", [False, True])
@pytest.mark.parametrize("same_size", [False, True])
def test_an_object_with_other_bytes_is_named_and_not_replaced(
    store: StoreFolder, target: FleetTarget, tmp_path: Path, shipped_before: bool, same_size: bool
) -> None:
    key, path = next((key, path) for key, path in sealed(store).items() if key.startswith("bins") and "cache-1" in key)
    content = bytearray(path.read_bytes())
    content[100] ^= 1
    other = bytes(content) if same_size else b"other"
    if shipped_before:
        call(store, target)
        shutil.rmtree(store.path / "shipped")
    spoil(target, key, other, tmp_path)
    found = call(store, target)
    [trouble] = found.troubles
    assert isinstance(trouble, DifferentObject)
    assert str(path) in str(trouble) and target.place(key) in str(trouble) and trouble.hint
    assert target.get(key) == other
    assert data(target).keys() == sealed(store).keys()
    assert key in next(iter(found.hosts)).missing[0]


def test_a_damaged_file_is_stated_and_the_rest_is_shipped(store: StoreFolder, archive: FleetTarget) -> None:
    key, path = next((key, path) for key, path in sealed(store).items() if key.startswith("bins") and "cache-1" in key)
    content = path.read_bytes()
    path.write_bytes(content[:200] + b"\xff" + content[201:])
    found = call(store, archive)
    [trouble] = found.troubles
    assert str(trouble).startswith(f"{path}: damaged: the content does not match its checksum")
    assert sealed(store).keys() - data(archive).keys() == {key}
    [receipt] = read_receipts(archive, *CACHE_1)
    assert receipt.missing == (f"{key}: damaged: the content does not match its checksum",)
    path.write_bytes(content)
    assert sums(call(store, archive)) == (1, 0, 1)
    has_arrived(store, archive)
    assert max(read_receipts(archive, *CACHE_1), key=lambda receipt: receipt.written_ns).missing == ()


def test_a_file_set_aside_before_it_arrived_is_stated_and_is_no_trouble(
    store: StoreFolder, archive: FleetTarget
) -> None:
    key, path = next((key, path) for key, path in sealed(store).items() if key.startswith("bins") and "cache-1" in key)
    path.write_bytes(path.read_bytes()[:-9])
    list(repair(store.path))
    found = call(store, archive)
    assert found.troubles == [] and data(archive).keys() == sealed(store).keys()
    [receipt] = read_receipts(archive, *CACHE_1)
    assert receipt.missing == (f"{key}: set aside by `mburst repair`",)


def test_a_file_set_aside_after_it_arrived_is_not_missing(store: StoreFolder, archive: FleetTarget) -> None:
    call(store, archive)
    path = next(path for key, path in sealed(store).items() if key.startswith("bins") and "cache-1" in key)
    path.write_bytes(path.read_bytes()[:-9])
    list(repair(store.path))
    for _ in range(2):
        write(store, "bins", {"host": "cache-1", "rack": "r1", "ts_ns": START})
        call(store, archive)
        assert all(receipt.missing == () for receipt in read_receipts(archive, *CACHE_1))
    shutil.rmtree(store.path / "shipped")
    write(store, "bins", {"host": "cache-1", "rack": "r1", "ts_ns": START})
    call(store, archive)
    assert all(receipt.missing == () for receipt in read_receipts(archive, *CACHE_1))


def test_a_damaged_receipt_is_named_and_its_files_are_stated_again(
    store: StoreFolder, target: FleetTarget, tmp_path: Path
) -> None:
    call(store, target)
    [name] = receipts.list_receipts(target, *CACHE_1)
    spoil(target, name.key, b"{}", tmp_path)
    shutil.rmtree(store.path / "shipped")
    found = call(store, target)
    assert [name.key in str(trouble) for trouble in found.troubles] == [True]
    assert sums(found) == (0, 6, 1)
    stated = files_of(read_receipts(target, damaged=lambda error: None))
    assert stated.keys() == sealed(store).keys()


# --- what breaks off --------------------------------------------------------------------------------------------------


def test_receipts_of_many_files_promise_no_more_than_has_arrived(
    store: StoreFolder, archive: FleetTarget, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ship, "MOST_FILES", 2)
    for day in range(3):
        write(store, "bins", {"ts_ns": START + day * 86_400 * 10**9})
    call(store, archive)
    has_arrived(store, archive)
    found = sorted(read_receipts(archive, *CACHE_1), key=lambda receipt: receipt.written_ns)
    assert [len(receipt.files) for receipt in found] == [2, 2, 2, 0]
    for number, receipt in enumerate(found):
        later = [file.min_ns for after in found[number + 1 :] for file in after.files if file.table == "bins"]
        assert all(receipt.until_ns <= ns for ns in later)


def test_shipping_goes_on_after_a_kill_at_any_step(store: StoreFolder, address: str) -> None:
    with serving(ROOT / "tests" / "lib" / "killed_shipper.py") as killer:
        calls = killer.order(store=str(store.path), target=f"{address}-0")["calls"]
        assert calls > 20
        for step in random.Random(22).sample(range(1, calls), 7):
            shutil.rmtree(store.path / "shipped")
            where = f"{address}-{step}"
            assert killer.order(store=str(store.path), target=where, step=step)["killed"]
            if step % 3:  # often it is killed a second time, early
                killer.order(store=str(store.path), target=where, step=1 + step // 2)
            found = call(store, open_target(where))
            assert not found.troubles
            has_arrived(store, open_target(where))


def test_two_calls_at_once(store: StoreFolder, address: str) -> None:
    found: list[Shipped] = []
    shippers = [
        threading.Thread(target=lambda: found.append(call(StoreFolder.open(store.path), open_target(address))))
        for _ in range(2)
    ]
    for one in shippers:
        one.start()
    for one in shippers:
        one.join()
    assert [one.troubles for one in found] == [[], []]
    assert sum(sums(one)[0] for one in found) == 6
    has_arrived(store, open_target(address))
    assert not call(store, open_target(address)).troubles


def test_everything_arrives_through_a_throttled_server(store: StoreFolder, s3: S3Server) -> None:
    chance = random.Random(5)
    s3.fault = lambda request: Response("", 503) if chance.random() < 0.3 else None
    target = open_target(f"s3://{BUCKET}/p")
    assert not call(store, target).troubles
    s3.fault = None
    has_arrived(store, target)


def test_a_failing_target_ends_the_call_and_the_next_call_goes_on(
    store: StoreFolder, s3: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bucket, "RETRIES", 0)
    target = open_target(f"s3://{BUCKET}/p")
    puts: list[str] = []

    def fault(request: Request) -> Response | None:
        puts.extend([request.path] if request.method == "PUT" else [])
        return Response("", 500) if len(puts) > 5 else None

    s3.fault = fault
    with pytest.raises(TargetError, match="500 Internal Server Error"):
        call(store, target)
    assert len(puts) == 6
    s3.fault = None
    assert sums(call(store, target)) == (6 - 3, 3, 2)
    has_arrived(store, target)


def test_a_bucket_that_replaces_objects_is_refused(store: StoreFolder, s3: S3Server) -> None:
    def fault(request: Request) -> None:
        request.environ.pop("HTTP_IF_NONE_MATCH", None)

    s3.fault = fault
    target = open_target(f"s3://{BUCKET}/p")
    with pytest.raises(TargetError, match="conditional writes"):
        call(store, target)
    assert [stored.key for stored in target.list()] == ["mburst.json"]


def test_an_address_that_is_not_a_target_is_refused(store: StoreFolder, archive: FleetTarget, tmp_path: Path) -> None:
    spoil(archive, "mburst.json", b'{"format": 1}\n', tmp_path)
    with pytest.raises(TargetError, match="not that of a store of format 2"):
        call(store, archive)
    assert len(list(archive.list())) == 1
