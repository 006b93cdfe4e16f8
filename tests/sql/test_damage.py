"""Damaged parts of a store are left out and named, and are never sealed, removed or waited for."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from storelib import rows, sealed_files, write

from mburst.errors import MburstError
from mburst.sql import StoreFolder, verified
from mburst.sql.format import filenames
from mburst.sql.format.hotlog import HotLog

T0 = 1_700_000_000_000_000_000
SEGMENT = "cache-1-01700000000000000000-0123456789ab-0"


def damage_hot(store: StoreFolder, change: Any) -> Path:
    """Returns the log of a writer that died, with its bytes changed by CHANGE."""
    segment = filenames.new_segment("cache-1", filenames.new_writer(), 0)
    log = HotLog(store.path, "bins", segment, "r1")
    for at in range(3):
        log.append(rows("bins", {"ts_ns": T0 + at}))
    log.leave()
    log.path.write_bytes(change(bytearray(log.path.read_bytes())))
    return log.path


def flipped(content: bytearray, at: int) -> bytearray:
    content[at] ^= 1
    return content


@pytest.mark.parametrize(
    ("change", "left"),
    [
        (lambda content: flipped(content, len(content) - 9), 2),
        (lambda content: flipped(content, len(content) // 2), 2),
        (lambda content: flipped(content, 12), 3),  # a length: the next frame is found again
        (lambda content: content[: len(content) // 2] + bytes(len(content) - len(content) // 2), 1),
        (lambda content: b"x" * len(content), 0),
    ],
)
def test_a_damaged_hot_log_loses_only_its_bad_batches_and_is_kept(tmp_path: Path, change: Any, left: int) -> None:
    store = StoreFolder.create(tmp_path / "store")
    path = damage_hot(store, change)
    content = path.read_bytes()
    connection = store.connect()
    assert connection.execute("SELECT count(*) FROM bins").fetchall() == [(left,)]
    assert connection.execute("SELECT path, table_name, host FROM damaged_files").fetchall() == [
        (str(path), "bins", "cache-1")
    ]
    with pytest.raises(MburstError) as caught:
        store.seal()
    assert str(path) in str(caught.value) and "\n" not in str(caught.value) and caught.value.hint
    write(store, "bins", {"ts_ns": T0 + 9})  # others continue to write, and leave it alone
    assert path.read_bytes() == content
    assert store.connect().execute("SELECT count(*) FROM bins").fetchall() == [(left + 1,)]


def test_an_empty_log_is_an_empty_log(tmp_path: Path) -> None:
    store = StoreFolder.create(tmp_path / "store")
    path = damage_hot(store, lambda content: b"")
    counts = store.connect().execute("SELECT (SELECT count(*) FROM bins), count(*) FROM damaged_files")
    assert counts.fetchall() == [(0, 0)]
    assert store.seal() == 1 and not path.exists()


@pytest.mark.parametrize("keep", [0, 3, 100, -1])
def test_a_damaged_sealed_file_loses_only_its_own_rows(tmp_path: Path, keep: int) -> None:
    store = StoreFolder.create(tmp_path)
    write(store, "bins", {"ts_ns": T0})
    write(store, "bins", {"ts_ns": T0 + 1})
    path = sealed_files(store, "bins")[1]
    path.write_bytes(path.read_bytes()[:keep])
    connection = store.connect()
    assert connection.execute("SELECT ts_ns FROM bins").fetchall() == [(T0,)]
    assert connection.execute("SELECT path, rack, host, first_ns, last_ns FROM damaged_files").fetchall() == [
        (str(path), "r1", "cache-1", T0 + 1, T0 + 1)
    ]


def test_a_sealed_file_is_verified_once_and_again_when_it_has_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = StoreFolder.create(tmp_path)
    write(store, "bins", {"ts_ns": T0})
    [path] = sealed_files(store, "bins")
    looked: list[Path] = []
    digest = verified.digest
    monkeypatch.setattr(verified, "digest", lambda path: looked.append(path) or digest(path))
    store.connect()
    assert looked == []  # its writer has verified it
    os.utime(path)
    store.connect(), store.connect()
    assert looked == [path]
    (path.parent.parent / verified.LEDGER).write_bytes(b"no ledger")
    store.connect(), store.connect()
    assert looked == [path, path]


@pytest.mark.parametrize("is_full", [False, True])
def test_a_ledger_does_not_grow_without_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_full: bool) -> None:
    """Files that seem to change again and again, as on a file system whose file numbers do, or more of them than a
    ledger may have lines."""
    store = StoreFolder.create(tmp_path / "store")
    for at in range(3):
        write(store, "bins", {"ts_ns": T0 + at})
    paths = sealed_files(store, "bins")
    ledger = paths[0].parent.parent / verified.LEDGER
    monkeypatch.setattr(verified, "MOST_LEDGER", 100 if is_full else 3000)
    for number in range(40):
        for path in paths:
            os.utime(path, ns=(number, number))
        assert verified.unverified(paths) == {}
        assert ledger.stat().st_size <= verified.MOST_LEDGER + 1000
    assert bool(verified.changed(paths)) == is_full


@pytest.mark.parametrize("make", [os.mkfifo, lambda path: os.symlink("/dev/zero", path), lambda path: path.mkdir()])
@pytest.mark.parametrize(
    "place",
    [
        f"hot/bins/{SEGMENT}.log",
        f"bins/date=2023-11-14/rack=r1/{SEGMENT}.0.c13.1-2.0123456789abcdef.parquet",
        "bins/date=2023-11-14/rack=r1/stranger.parquet",
        "hot/bins/stranger.log",
        "bins/date=2023-11-14/rack=r2",
        "probes",
        f"bins/date=2023-11-14/{verified.LEDGER}",
    ],
)
def test_special_files_are_left_out_without_being_opened(tmp_path: Path, make: Any, place: str) -> None:
    store = StoreFolder.create(tmp_path)
    write(store, "bins", {"ts_ns": T0})
    with store.writer("bins", host="cache-1", rack="r1") as writer:
        writer.append(rows("bins", {"ts_ns": T0 + 1}))
        if (tmp_path / place).exists():
            (tmp_path / place).unlink()
        (tmp_path / place).parent.mkdir(parents=True, exist_ok=True)
        make(tmp_path / place)
        connection = store.connect()
        assert connection.execute("SELECT count(*) FROM bins").fetchall() == [(2,)]
        [(damaged,)] = connection.execute("SELECT count(*) FROM damaged_files").fetchall()
        is_folder_in_place = (tmp_path / place).is_dir() and place in ("probes", "bins/date=2023-11-14/rack=r2")
        assert damaged == (0 if is_folder_in_place or place.endswith(verified.LEDGER) else 1)


@pytest.mark.parametrize(
    "marker", [b"", b"{", b"\xff\xfe", b"[" * 4000, b'{"format": "2"}', b'{"format": true}', b"[2]", b"9" * 4096]
)
def test_an_invalid_marker_is_named(tmp_path: Path, marker: bytes) -> None:
    (tmp_path / "mburst.json").write_bytes(marker)
    with pytest.raises(MburstError, match=r"mburst\.json: damaged") as caught:
        StoreFolder.open(tmp_path)
    assert caught.value.hint


@pytest.mark.parametrize(("version", "hint"), [(1, "mburst migrate"), (3, "a newer one")])
def test_another_format_is_refused_with_a_hint(tmp_path: Path, version: int, hint: str) -> None:
    (tmp_path / "mburst.json").write_text(f'{{"format": {version}}}')
    for open_ in (StoreFolder.open, StoreFolder.create):
        with pytest.raises(MburstError, match=f"a store of format {version}") as caught:
            open_(tmp_path)
        assert hint in caught.value.hint
