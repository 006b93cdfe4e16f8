"""`mburst check` reports everything that differs from how it was written, and reports no sound file as damaged."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from storelib import hot_logs, rows, sealed_files, write

from mburst.__main__ import main
from mburst.sql import StoreFolder, verified
from mburst.sql.format import filenames
from mburst.sql.format.hotlog import HotLog
from mburst.sql.repair.checking import Findings, check

T0 = 1_700_000_000_000_000_000
DAY = 86_400 * 10**9


@pytest.fixture
def store(tmp_path: Path) -> StoreFolder:
    """A store of two hosts, two racks and two days, with a recording whose totals are those of its bins and senders."""
    made = StoreFolder.create(tmp_path / "store")
    write(
        made,
        "bins",
        *({"ts_ns": T0 + at * DAY, "bytes": 10, "wire_bytes": 20, "packets": 1} for at in (0, 1)),
        {"host": "cache-2", "rack": "r2", "recording_id": "run-2", "ts_ns": T0, "bytes": 5},
    )
    write(made, "sources", {"ts_ns": T0, "bytes": 20, "packets": 2, "first_ns": T0, "last_ns": T0})
    write(made, "recordings", {"packets": 2, "bytes": 20, "wire_bytes": 40, "start_ns": T0, "end_ns": T0 + DAY})
    return made


def damaged(found: Findings) -> list[tuple[str, str]]:
    return [(Path(file.path).name, file.reason) for file in found.damaged]


def flip(path: Path, at: int, bit: int = 0) -> None:
    content = bytearray(path.read_bytes())
    content[at] ^= 1 << bit
    path.write_bytes(content)


def left_hot(store: StoreFolder, batches: int = 3, host: str = "cache-1") -> Path:
    """Returns the log of a writer that was killed after so many batches."""
    segment = filenames.new_segment(host, filenames.new_writer(), 0)
    log = HotLog(store.path, "bins", segment, "r1")
    for at in range(batches):
        log.append(rows("bins", {"host": host, "ts_ns": T0 + at * 10**6, "bytes": 10**at}))
    log.leave()
    return log.path


def test_a_sound_store_is_reported_as_sound_with_its_counts(store: StoreFolder, capsys: Any) -> None:
    assert main(["check", str(store.path), "--json"]) == 0
    payload = json.loads(capsys.readouterr().out)
    files = [path for table in ("bins", "sources", "recordings") for path in sealed_files(store, table)]
    assert (payload["sound"], payload["damaged_files"], payload["remarks"]) == (True, [], [])
    assert (payload["files"], payload["bytes"]) == (len(files), sum(path.stat().st_size for path in files))


@pytest.mark.parametrize("table", ["bins", "sources", "recordings"])
def test_a_flipped_bit_is_reported_with_the_missing_rows(store: StoreFolder, table: str, capsys: Any) -> None:
    path = sealed_files(store, table)[0]
    flip(path, 100)
    assert main(["check", str(store.path)]) == 1
    line, summary = capsys.readouterr().out.splitlines()
    reason = "the content does not match its checksum"
    assert line.startswith(f"{path}: damaged: {reason} (missing: rows of {table} of host cache-1 in rack r1 from 20")
    assert summary.endswith("1 damaged file")


def test_a_changed_byte_with_a_matching_ledger_is_found_and_then_known_to_readers(store: StoreFolder) -> None:
    path = sealed_files(store, "sources")[0]
    flip(path, 100)
    verified.remember(path)  # like the ledger if the disk had changed the byte
    assert store.connect().execute("FROM damaged_files").fetchall() == []
    assert damaged(check(store.path)) == [(path.name, "the content does not match its checksum")]
    assert [row[0] for row in store.connect().execute("FROM damaged_files").fetchall()] == [str(path)]


def test_a_file_that_is_being_written_is_no_damage(store: StoreFolder) -> None:
    with store.writer("bins", "cache-1", "r1") as writer:
        writer.append(rows("bins", {"ts_ns": T0}))
        [log] = hot_logs(store, "bins")
        with log.open("ab") as file:
            file.write(b"mbF2 the beginning of a frame")
        found = check(store.path)
        assert found.is_sound and found.remarks == []


def test_a_torn_end_is_harmless_and_reported(store: StoreFolder) -> None:
    log = left_hot(store)
    os.truncate(log, log.stat().st_size - 8)
    found = check(store.path)
    assert found.is_sound and [remark.path for remark in found.remarks] == [str(log)]


def test_a_batch_that_changed_is_damage_of_the_log(store: StoreFolder) -> None:
    log = left_hot(store)
    flip(log, log.stat().st_size // 2)
    [(name, reason)] = damaged(check(store.path))
    assert name == log.name and "batch" in reason


@pytest.mark.parametrize(
    "make", [os.mkfifo, os.mkdir, lambda path: path.symlink_to("/dev/zero"), lambda path: path.symlink_to(path)]
)
@pytest.mark.parametrize("where", ["sealed", "hot", "marker", "ledger", "foreign", "folder"])
def test_special_files_are_recognized_before_they_are_opened(store: StoreFolder, make: Any, where: str) -> None:
    path = {
        "sealed": sealed_files(store, "bins")[0],
        "hot": left_hot(store),
        "marker": store.path / "mburst.json",
        "ledger": sealed_files(store, "bins")[0].parents[1] / ".verified",
        "foreign": store.path / "hot" / "x",
        "folder": sealed_files(store, "bins")[0].parent,
    }[where]
    if path.is_dir():
        shutil.rmtree(path)
    path.unlink(missing_ok=True)
    make(path)
    found = check(store.path)
    harmless = where in ("ledger", "foreign") or (where == "folder" and make is os.mkdir)
    assert found.is_sound is harmless
    assert harmless or any(file.path == str(path) for file in found.damaged)


@pytest.mark.parametrize(
    ("folder", "reason"),
    [
        ("bins/date=2023-11-15/rack=r1", "the date of its folder is not that of its rows"),
        ("bins/date=mixed/rack=r1", "the date of its folder is not that of its rows"),
        ("bins/date=2023-11-14/rack=r9", "the rack of its folder is not that of its rows"),
        ("sources/date=2023-11-14/rack=r1", "the rows are not of table sources"),
    ],
)
def test_a_file_in_the_wrong_folder_is_found(store: StoreFolder, folder: str, reason: str) -> None:
    path = next(path for path in sealed_files(store, "bins") if path.parent.parent.name == "date=2023-11-14")
    target = store.path / folder
    target.mkdir(parents=True, exist_ok=True)
    path.rename(target / path.name)
    assert damaged(check(store.path)) == [(path.name, reason)]
    missing = store.connect().execute("SELECT reason FROM damaged_files").fetchall()
    assert missing == [(reason,)], "who reads does without it, too"


def test_a_log_in_the_folder_of_another_table_is_found(store: StoreFolder) -> None:
    log = left_hot(store)
    target = store.path / "hot" / "sources" / log.name
    target.parent.mkdir(exist_ok=True)
    log.rename(target)
    assert damaged(check(store.path)) == [(log.name, "is a log of table bins")]
    connection = store.connect()
    assert connection.execute("SELECT reason FROM damaged_files").fetchall() == [("is a log of table bins",)]
    assert connection.execute("SELECT count(*) FROM sources").fetchall() == [(1,)]


def test_a_second_copy_of_a_file_is_found(store: StoreFolder) -> None:
    path = sealed_files(store, "bins")[0]
    name = filenames.SealedName.parse(path.name)
    assert name
    other = path.with_name(filenames.SealedName(**{**vars(name), "first_ns": name.first_ns - 1}).name)
    shutil.copy(path, other)
    assert {reason for _, reason in damaged(check(store.path))} & {"a second copy of the same part of a segment"}


def test_leftovers_and_foreign_files_are_named_and_harmless(store: StoreFolder) -> None:
    segment = f"cache-1-{T0:020d}-0123456789ab-0"
    leftovers = [
        store.path / "hot" / "bins" / f"{segment}.new",
        store.path / ".mburst.json.0123",
        sealed_files(store, "bins")[0].parent / f"{segment}.0.tmp",
        store.path / "README",
        store.path / "hot" / "bins" / "x.txt",
    ]
    for path in leftovers:
        path.parent.mkdir(exist_ok=True)
        path.write_text("x")
        os.utime(path, (0, 0))
    for folder in ("damaged", "locks"):
        (store.path / folder).mkdir()
        (store.path / folder / "x").write_text("x")
    found = check(store.path)
    assert found.is_sound and {remark.path for remark in found.remarks} == {str(path) for path in leftovers}
    StoreFolder.open(store.path).connect()


@pytest.mark.parametrize("marker", [b"", b"{}", b"\xff\xff", b"{" * 5000])
def test_a_damaged_marker_of_a_store_is_damage(store: StoreFolder, marker: bytes) -> None:
    (store.path / "mburst.json").write_bytes(marker)
    assert [name for name, _ in damaged(check(store.path))] == ["mburst.json"]


def test_a_folder_that_is_not_a_store_is_reported(tmp_path: Path, capsys: Any) -> None:
    assert main(["check", str(tmp_path)]) == 1
    assert "not an mburst store" in capsys.readouterr().err
    (tmp_path / "mburst.json").write_text('{"format": 99}')
    assert main(["check", str(tmp_path)]) == 1
    assert "format 99" in capsys.readouterr().err


def test_deep_compares_sums_with_totals(store: StoreFolder, capsys: Any) -> None:
    assert main(["check", str(store.path), "--deep", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["recordings_compared"] == 1
    write(store, "bins", {"ts_ns": T0 + 5, "bytes": 1, "packets": 0})
    assert main(["check", str(store.path), "--deep"]) == 1
    assert "recording run-1 of host cache-1: 21 bytes in bins, and the recording says 20" in capsys.readouterr().out


def test_deep_expects_no_senders_of_a_switch_port(store: StoreFolder, capsys: Any) -> None:
    """OTLP counts bytes only. Bytes that its bins lack are still found."""
    port = {"host": "tor1", "interface": "Ethernet0", "recording_id": "port-1"}
    counted = {"packets": 0, "bytes": 30, "wire_bytes": 40}
    write(store, "recordings", {**port, **counted, "backend": "otlp", "start_ns": T0, "end_ns": T0 + DAY})
    write(store, "bins", {**port, **counted, "ts_ns": T0})
    assert main(["check", str(store.path), "--deep", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["recordings_compared"] == 2
    assert main(["repair", str(store.path)]) == 0
    capsys.readouterr()
    write(store, "bins", {**port, "ts_ns": T0 + 5, "bytes": 1, "packets": 0})
    assert main(["check", str(store.path), "--deep"]) == 1
    assert "recording port-1 of host tor1: 31 bytes in bins, and the recording says 30" in capsys.readouterr().out


def test_deep_compares_sums_once_damaged_files_are_set_aside(store: StoreFolder, capsys: Any) -> None:
    flip(next(path for path in sealed_files(store, "bins") if "cache-1" in path.name), 50)
    assert main(["check", str(store.path), "--deep", "--json"]) == 1
    payload = json.loads(capsys.readouterr().out)
    assert (payload["mismatches"], payload["recordings_compared"], len(payload["damaged_files"])) == ([], 0, 1)
    assert main(["repair", str(store.path)]) == 0
    capsys.readouterr()
    assert main(["check", str(store.path), "--deep", "--json"]) == 1
    payload = json.loads(capsys.readouterr().out)
    assert (payload["recordings_compared"], payload["damaged_files"], len(payload["missing"])) == (1, [], 1)
    assert payload["mismatches"][0] == "recording run-1 of host cache-1: 1 packets in bins, and the recording says 2"
