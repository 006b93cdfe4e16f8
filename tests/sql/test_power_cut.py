"""After a power cut a file may have its length, but not its last bytes. Such files are read, sealed and recovered once
the machine was restarted, and are reported as damaged before that."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from places import ROOT
from storelib import hot_logs, rows, sealed_files, write

from mburst import machine
from mburst.errors import MburstError
from mburst.services.record import gaps, recovery
from mburst.sql import StoreFolder, locks, verified
from mburst.sql.follow import TableFollower
from mburst.sql.format import filenames
from mburst.sql.format.hotlog import HotLog, LogHeader
from mburst.sql.repair.checking import check

T0 = 1_700_000_000_000_000_000
BATCHES, ROWS = 6, 40
SECTOR = 512


@pytest.fixture
def restart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Simulates a restart of the machine: its boot id is another one from then on."""

    def restarted() -> None:
        (tmp_path / "boot").write_text("00000000-0000-4000-8000-000000000000\n")
        monkeypatch.setattr(machine, "BOOT_ID", tmp_path / "boot")

    return restarted


def dead_log(store: StoreFolder) -> tuple[Path, list[int]]:
    """Returns the log of a writer that died, and where each of its frames ends."""
    log = HotLog(store.path, "bins", filenames.new_segment("cache-1", filenames.new_writer(), 0), "r1")
    ends = [log.path.stat().st_size]
    for at in range(BATCHES):
        log.append(rows("bins", *({"ts_ns": T0 + at * ROWS + row} for row in range(ROWS))))
        ends.append(log.path.stat().st_size)
    log.leave()
    return log.path, ends


def unwritten(path: Path, cut: int, length: int) -> None:
    path.write_bytes(path.read_bytes()[:cut].ljust(length, b"\0"))


def cuts(ends: list[int]) -> list[tuple[int, int, int]]:
    """Returns (where the zeros begin, length, whole batches), at the end of a frame, of a sector and of a block."""
    size = ends[-1]
    sectors = [at for at in range(SECTOR, size, SECTOR) if at > ends[0]]
    places = {*ends, sectors[0], sectors[len(sectors) // 2], sectors[-1], size // 4096 * 4096}
    return [
        (cut, length, sum(end <= cut for end in ends) - 1)
        for cut in sorted(places)
        for length in (size, size + 4096)
        if length - cut >= 32
    ]


def counted(store: StoreFolder) -> tuple[int, list[str]]:
    """Returns the number of rows, and the reasons of damaged files."""
    with store.connect() as connection:
        [(count,)] = connection.execute("SELECT count(*) FROM bins").fetchall()
        return count, [reason for (reason,) in connection.execute("SELECT reason FROM damaged_files").fetchall()]


def test_an_unwritten_end_is_damage_until_the_machine_was_restarted(
    tmp_path: Path, restart: Callable[[], None]
) -> None:
    cases = []
    for cut, length, whole in cuts(dead_log(StoreFolder.create(tmp_path / "measured"))[1]):
        store = StoreFolder.create(tmp_path / f"{cut}-{length}")
        path, ends = dead_log(store)
        assert ends[0] <= cut  # the header is on the disk before the log has its name
        unwritten(path, cut, length)
        cases.append((store, path, whole))
        assert not check(store.path).is_sound
        with pytest.raises(MburstError, match=r"never written|checksum|no batch"):
            store.seal()
    assert counted(cases[0][0])[1] != [] and path.exists()
    restart()
    for store, path, whole in cases:
        found = check(store.path)
        assert found.is_sound and [remark.path for remark in found.remarks] == [str(path)]
        assert store.seal() == 1 and not path.exists()
        [sealed] = sealed_files(store, "bins") if whole else [None]
        assert (sealed is None) == (whole == 0)
    for store, _, whole in (cases[0], cases[len(cases) // 2], cases[-1]):
        assert counted(store) == (whole * ROWS, [])


def test_an_unwritten_end_is_read_and_followed_like_a_torn_end(tmp_path: Path, restart: Callable[[], None]) -> None:
    store = StoreFolder.create(tmp_path / "store")
    tail = TableFollower(store.path, "bins")
    path, ends = dead_log(store)
    unwritten(path, ends[3], ends[-1])
    restart()
    assert counted(store) == (3 * ROWS, [])
    assert (sum(part.num_rows for part in tail.poll()), tail.damage) == (3 * ROWS, [])
    tail.close()


@pytest.mark.parametrize(
    "change",
    [
        lambda content, ends: content[: ends[2]] + bytes(ends[3] - ends[2]) + content[ends[3] :],  # a batch behind it
        lambda content, ends: content[: ends[2] + 40] + b"\1" + content[ends[2] + 41 : ends[3]] + bytes(4096),  # a bit
        lambda content, ends: bytes(ends[0]) + content[ends[0] :],  # the header
        lambda content, ends: bytes(len(content)),
    ],
)
def test_other_damage_stays_damage(
    tmp_path: Path, restart: Callable[[], None], change: Callable[[bytes, list[int]], bytes]
) -> None:
    store = StoreFolder.create(tmp_path / "store")
    path, ends = dead_log(store)
    path.write_bytes(change(path.read_bytes(), ends))
    restart()
    assert counted(store)[1] != []
    recovery.tidy(store, lambda error: None)
    assert path.exists()


def test_a_log_without_a_boot_id_stays_damaged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, restart: Callable[[], None]
) -> None:
    """Logs of older versions have none, nor do those of a kernel whose boot id is hidden. The boot id may be hidden at
    the time of writing or at the time of reading."""
    assert LogHeader.from_json(b'{"columns": 1, "format": 2, "host": "a", "rack": "r", "table": "bins"}').boot == ""
    for hidden_before in (True, False):
        store = StoreFolder.create(tmp_path / f"store-{hidden_before}")
        with monkeypatch.context() as patch:
            patch.setattr(machine, "BOOT_ID", tmp_path / ("hidden" if hidden_before else "former"))
            (tmp_path / "former").write_text("former\n")
            path, ends = dead_log(store)
        unwritten(path, ends[3], ends[-1])
        if hidden_before:
            restart()
        else:
            monkeypatch.setattr(machine, "BOOT_ID", tmp_path / "hidden")
        assert counted(store)[1] != []


def test_other_blank_files_do_no_harm(tmp_path: Path, restart: Callable[[], None]) -> None:
    """These are an empty log, drafts, and a ledger and a lock of zeros."""
    store = StoreFolder.create(tmp_path / "store")
    write(store, "bins", {"ts_ns": T0})
    [sealed] = sealed_files(store, "bins")
    empty, _ = dead_log(store)
    empty.write_bytes(b"")
    drafts = [
        store.path / "hot" / "bins" / f"{filenames.new_segment('a', filenames.new_writer(), 0)}.new",
        sealed.with_name(f"{filenames.new_segment('a', filenames.new_writer(), 0)}.0.tmp"),
        store.path / ".mburst.json.0123",
    ]
    for draft in drafts:
        draft.write_bytes(bytes(4096))
        os.utime(draft, (0, 0))
    with (sealed.parents[1] / verified.LEDGER).open("ab") as ledger:
        ledger.write(bytes(4096))
    lock = store.path / locks.FOLDER / "0123456789ab"
    lock.parent.mkdir()
    lock.write_bytes(bytes(4096))
    restart()
    assert counted(store) == (1, []) and check(store.path).is_sound
    troubles: list[MburstError] = []
    recovery.tidy(store, troubles.append)
    assert troubles == [] and not any(path.exists() for path in [empty, lock, *drafts])
    assert hot_logs(store, "bins") == [] and counted(store) == (1, [])
    verified.remember(sealed)
    assert verified.unverified([sealed]) == {}


def test_a_hidden_boot_id_is_no_power_cut_and_equals_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert (gaps.cause("another", ""), gaps.cause(machine.boot_id(), ""), gaps.cause(None, "failed")) == (
        "power",
        "killed",
        "failed",
    )
    monkeypatch.setattr(machine, "BOOT_ID", tmp_path / "hidden")
    assert (machine.boot_id(), gaps.cause("another", ""), gaps.cause("", "")) == ("", "killed", "killed")
    row = {
        "boot_id": "",
        "interface_id": "1/1",
        "begun_packets": 5,
        "begun_bytes": 5,
        "packets": 1,
        "bytes": 1,
        "dropped": 0,
        "late": 0,
        "late_bytes": 0,
        "backend": "libpcap",
        "filter": "",
        "quality": 0,
    }
    packets, _, why = gaps.missed(row, row | {"begun_packets": 9}, 1)
    assert packets is None and "does not report whether it was restarted" in why
    assert gaps.missed(row | {"boot_id": "a"}, row | {"boot_id": "a", "begun_packets": 9}, 1)[0] == 3


def test_the_shipped_service_sees_the_boot_id() -> None:
    settings = (ROOT / "examples" / "mburst.service").read_text().splitlines()
    assert "ProtectProc=invisible" in settings and not any(line.startswith("ProcSubset") for line in settings)
