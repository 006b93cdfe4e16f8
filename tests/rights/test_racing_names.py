"""A name that changes between a file, a link and a fifo while mburst reads or writes there: the target of a link is
neither read nor written, nothing blocks, and each failure is one line."""

from __future__ import annotations

import itertools
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from storelib import sealed_files, write
from waiting import beside

from mburst import files
from mburst.errors import MburstError
from mburst.sql import StoreFolder, disk, verified
from mburst.sql.damage import readable

PRECIOUS = "precious"
TRIES = 300


@contextmanager
def changing(path: Path, *states: Callable[[Path], object]) -> Iterator[None]:
    """Makes PATH each of STATES in turn, again and again, in a thread that renames."""
    aside = path.with_name("aside")

    def change(ended: threading.Event) -> None:
        for make in itertools.cycle(states):
            if ended.is_set():
                return
            with suppress(OSError):
                make(aside)
                os.rename(aside, path)

    with beside(change):
        yield


@pytest.fixture
def precious(tmp_path: Path) -> Iterator[Path]:
    path = tmp_path / "precious"
    path.write_text(PRECIOUS)
    path.chmod(0o600)
    yield path
    assert path.read_text() == PRECIOUS and path.stat().st_mode & 0o777 == 0o600


def states(precious: Path, text: str = "own") -> list[Callable[[Path], object]]:
    return [lambda aside: aside.write_text(text), lambda aside: aside.symlink_to(precious), os.mkfifo]


@pytest.mark.parametrize("what", ["write", "read", "first line", "lock", "regular"])
def test_a_file_that_becomes_a_link(tmp_path, precious, what):
    folder = tmp_path / "folder"
    folder.mkdir()
    path = folder / ".lock" if what == "lock" else folder / "x"

    def lock() -> None:
        with files.locked(folder, 0.01):
            pass

    def regular() -> bytes:
        descriptor = disk.open_regular(path)
        try:
            return disk.read_from(descriptor, 0)
        finally:
            os.close(descriptor)

    calls: dict[str, Callable[[], object]] = {
        "write": lambda: files.write(path, "new", "it", ""),
        "read": lambda: files.read_own(path),
        "first line": lambda: files.first_line(path),
        "lock": lock,
        "regular": regular,
    }
    found = []
    with changing(path, *states(precious)):
        for _ in range(TRIES):
            with suppress(MburstError, OSError):
                found.append(calls[what]())
    assert PRECIOUS not in str(found)


def test_a_sealed_file_and_its_ledger_that_become_links(tmp_path, precious):
    store = StoreFolder.create(tmp_path / "store")
    write(store, "bins", {"ts_ns": 1_700_000_000_000_000_000})
    [path] = sealed_files(store, "bins")
    content, ledger = path.read_bytes(), path.parent.parent / verified.LEDGER
    own = [lambda aside: aside.write_bytes(content), lambda aside: aside.symlink_to(precious)]
    with changing(path, *own), changing(ledger, *states(precious)):
        for _ in range(20):
            verified.unverified([path])
            with suppress(MburstError), store.connect() as connection, readable(connection):
                assert connection.execute("SELECT count(*) FROM bins").fetchone() in ((0,), (1,))


def test_a_folder_of_reports_that_becomes_a_link_gets_whole_pages_only(tmp_path):
    """The folder is opened once, so that a page is in it or in the folder that the link names; no other file there is
    changed."""
    folder, elsewhere = tmp_path / "folder", tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "other").write_text(PRECIOUS)
    folder.mkdir()
    for number in range(50):
        with changing(folder, lambda aside: aside.symlink_to(elsewhere)), suppress(MburstError):
            files.write(folder / f"page-{number}", "new", "it", "")
    assert (elsewhere / "other").read_text() == PRECIOUS
    assert not [path for path in (*folder.iterdir(), *elsewhere.iterdir()) if path.name.startswith(".")]
