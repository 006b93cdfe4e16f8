"""Which hosts `ship` takes, by their names, and whose files are whose."""

from __future__ import annotations

import pytest
from racklib import START
from shiplib import archive, call, filled, has_arrived, sealed, store, sums
from storelib import rows, write

from mburst.errors import UsageError
from mburst.fleet.ledger import ShipLedger
from mburst.fleet.receipts import read_receipts
from mburst.fleet.sealed import HostName
from mburst.fleet.target import FleetTarget
from mburst.sql import StoreFolder

__all__ = ["archive", "filled", "store"]


@pytest.mark.parametrize("name", [{"host": "unknown"}, {"rack": "unknown"}])
def test_hosts_without_a_name_are_refused(store: StoreFolder, archive: FleetTarget, name: dict[str, str]) -> None:
    write(store, "recordings", name)
    write(store, "bins", {**name, "ts_ns": START})
    [trouble] = (found := call(store, archive)).troubles
    assert "2 files are not shipped" in str(trouble) and "--rack" in trouble.hint
    assert sums(found) == (6, 0, 2) and not any("unknown" in stored.key for stored in archive.list())


@pytest.mark.parametrize(("letter", "shown"), [("x", 100 * "x"), ("ж", 16 * "ж"), ("%", 33 * "%")])
def test_hosts_whose_names_are_cut_in_names_of_files_are_refused(
    store: StoreFolder, archive: FleetTarget, letter: str, shown: str
) -> None:
    """Two of them would be one host."""
    for host in (f"{101 * letter}-{number}" for number in (1, 2)):
        write(store, "recordings", {"host": host, "rack": "r1", "recording_id": host[-1]})
        write(store, "bins", {"host": host, "rack": "r1", "recording_id": host[-1], "ts_ns": START})
    [trouble] = (found := call(store, archive)).troubles
    reason = "4 files are not shipped: names of files have at most 100 bytes of a host"
    assert str(trouble) == f"host {shown}… in rack r1: {reason}" and "--host" in trouble.hint
    assert sums(found) == (6, 0, 2)


@pytest.mark.parametrize("host", [100 * "x", 15 * "ж" + 10 * "x", 33 * "%" + "x"])
def test_the_longest_name_of_a_host_is_shipped(store: StoreFolder, archive: FleetTarget, host: str) -> None:
    write(store, "recordings", {"host": host, "rack": "r1"})
    assert sums(found := call(store, archive)) == (7, 0, 3) and not found.troubles
    assert [receipt.host for receipt in read_receipts(archive, "r1", host)] == [host]


def test_the_longest_name_of_a_host_is_refused_if_a_cut_one_begins_with_it(
    store: StoreFolder, archive: FleetTarget
) -> None:
    for host in (100 * "x", 101 * "x"):
        write(store, "recordings", {"host": host, "rack": "r1", "recording_id": host})
    [trouble] = (found := call(store, archive)).troubles
    assert "2 files are not shipped: names of files have at most 100 bytes" in str(trouble)
    assert sums(found) == (6, 0, 2)


@pytest.mark.parametrize("number", [0, 1])
def test_a_damaged_file_does_not_hide_the_longest_name(store: StoreFolder, archive: FleetTarget, number: int) -> None:
    host = 100 * "x"
    for recording in ("run-1", "run-2"):
        row = {"host": host, "rack": "r1", "recording_id": recording}
        write(store, "recordings", row, writer_id="0123456789ab")
    damaged = sorted(path for path in sealed(store).values() if path.name.startswith(host))[number]
    damaged.write_bytes(damaged.read_bytes()[: damaged.stat().st_size // 2])
    [trouble] = (found := call(store, archive)).troubles
    assert sums(found) == (7, 0, 3) and damaged.name in str(trouble)


@pytest.mark.parametrize(("length", "count"), [(100, 1), (101, 0)])
def test_a_name_is_known_before_its_first_file_is_sealed(
    store: StoreFolder, archive: FleetTarget, length: int, count: int
) -> None:
    host = length * "x"
    with store.writer("bins", host, "r1") as writer:
        writer.append(rows("bins", {"host": host, "rack": "r1", "ts_ns": START}))
        found = call(store, archive)
    assert sums(found) == (6, 0, 2 + count) and len(found.troubles) == 1 - count


def test_a_given_host_may_have_any_length(store: StoreFolder, archive: FleetTarget) -> None:
    """Names of files do not have it."""
    host = 120 * "c"
    with store.writer("probes") as writer:
        writer.append(rows("probes", {"tx_ns": START}))
    found = call(store, archive, own=HostName("r1", host))
    assert sums(found) == (7, 0, 3) and not found.troubles
    [receipt] = read_receipts(archive, "r1", host)
    assert [file.table for file in receipt.files] == ["probes"]


def test_a_recording_without_a_rack_is_refused_before_its_first_file_is_sealed(
    store: StoreFolder, archive: FleetTarget
) -> None:
    with store.writer("bins", "cache-1", "unknown") as writer:
        writer.append(rows("bins", {"rack": "unknown", "ts_ns": START}))
        [trouble] = call(store, archive).troubles
    assert str(trouble) == "host cache-1 in rack unknown: its recording is not shipped: a fleet needs names"


def test_files_without_a_host_belong_to_the_only_host_or_the_given_one(
    store: StoreFolder, archive: FleetTarget
) -> None:
    with store.writer("probes") as writer:
        writer.append(rows("probes", {"tx_ns": START}))
    with pytest.raises(UsageError, match="the files of table probes have no host"):
        call(store, archive)
    assert not [*archive.list()] and ShipLedger(store.path, archive.name).is_new  # nor does compaction wait
    call(store, archive, own=HostName("", "cache-1"))
    [receipt] = read_receipts(archive, "r1", "cache-1")
    assert "probes" in {file.table for file in receipt.files}
    has_arrived(store, archive)
    only = StoreFolder.create(store.path.parent / "only")
    write(only, "recordings", {"host": "cache-3"})
    with only.writer("queues", rack="r9") as writer:
        writer.append(rows("queues", {"window_start_ns": START - 1, "ts_ns": START, "receive_ns": START}))
    call(only, archive)
    assert [file.table for one in read_receipts(archive, "r9", "cache-3") for file in one.files] == ["queues"]
