"""The ring of packets: added packets can be read back, the files stay within their size, and packets that could not be
kept are counted, also in the files. By a program of the engine's code under sanitizers (tests/c/keeper_driver.c)."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from building import program

from mburst.capture import CapturedFrames
from mburst.errors import MburstError
from mburst.packets import account, ring, source

FIRST_NS = 10**18
Y2200_NS = 7_258_118_400 * 10**9


@pytest.fixture(scope="module")
def driver() -> Path:
    return program("tests/c/keeper_driver.c")


def keep(
    driver: Path, folder: Path, most: int, count: int, caplen: int, *more: str, reserve: int = 0
) -> dict[str, int]:
    folder.mkdir(exist_ok=True)
    command = [str(driver), str(folder), str(most), str(reserve), str(count), str(caplen), *more]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    found: dict[str, int] = json.loads(done.stdout)
    return found


def read(folder: Path) -> list[tuple[int, int, str, bytes]]:
    """Returns stamp, length, direction and content of every packet."""
    frames = CapturedFrames([str(file.path) for file in ring.files_of(folder)], 0, Y2200_NS)
    found = []
    while (some := frames.read()) is not None:
        found += [(ts_ns, length, direction, data) for _, ts_ns, length, direction, _, _, data in some]
    assert frames.notice is None
    return found


def made(i: int, caplen: int) -> tuple[int, int, str, bytes]:
    length = 14 + 3 * i % caplen
    return FIRST_NS + 1000 * i, length + 100, ("in", "out")[i % 2], bytes([i % 256]) * length


@pytest.mark.parametrize(("count", "caplen"), [(1, 14), (20_000, 130), (300, 65_000)])
def test_added_packets_can_be_read_back(driver: Path, tmp_path: Path, count: int, caplen: int) -> None:
    kept = keep(driver, tmp_path / "ring", 64_000_000, count, caplen)
    assert (kept["packets"], kept["lost"]) == (count, 0)
    assert read(tmp_path / "ring") == [made(i, caplen) for i in range(count)]
    end_ns = FIRST_NS + 1000 * count
    assert not account.missing(ring.files_of(tmp_path / "ring"), FIRST_NS, end_ns)
    assert account.missing(ring.files_of(tmp_path / "ring"), FIRST_NS - 5, end_ns + 7) == [
        account.Missing(FIRST_NS - 5, FIRST_NS),
        account.Missing(end_ns, end_ns + 7),
    ]


def test_the_oldest_files_are_removed_and_the_rest_is_complete(driver: Path, tmp_path: Path) -> None:
    folder, count, caplen = tmp_path / "ring", 300_000, 130
    kept = keep(driver, folder, 16_000_000, count, caplen)
    files = ring.files_of(folder)
    assert sum(file.path.stat().st_size for file in files) <= 16_000_000 < kept["bytes"]
    assert all(file.path.stat().st_size <= 1_000_000 for file in files)
    found = read(folder)
    if not kept["lost"]:  # a slow disk may also lose some here
        assert found == [made(i, caplen) for i in range(count - len(found), count)]
    assert files[0].first_ns == found[0][0] and [file.number for file in files] == list(
        range(files[0].number, files[0].number + len(files))
    )
    keep(driver, folder, 16_000_000, 10, caplen)  # another recorder continues after them
    after = ring.files_of(folder)
    assert after[-1].number == files[-1].number + 1 and sum(file.path.stat().st_size for file in after) <= 16_000_000


def test_packets_that_a_stalled_disk_does_not_take_are_counted(driver: Path, tmp_path: Path) -> None:
    folder, count, caplen = tmp_path / "ring", 300_000, 130
    kept = keep(driver, folder, 1_000_000_000, count, caplen, "stalled")
    found = read(folder)
    assert kept["lost"] > 1000 and kept["packets"] + kept["lost"] == count and len(found) == kept["packets"]
    lacks = account.missing(ring.files_of(folder), FIRST_NS, FIRST_NS + 1000 * count)
    assert sum(one.packets or 0 for one in lacks) == kept["lost"]
    stamps = {packet[0] for packet in found}
    absent = [i for i in range(count) if FIRST_NS + 1000 * i not in stamps]
    assert all(any(one.since_ns <= FIRST_NS + 1000 * i < one.until_ns for one in lacks) for i in absent)


def test_a_file_that_is_not_there_is_a_hole(driver: Path, tmp_path: Path) -> None:
    folder, count = tmp_path / "ring", 60_000
    keep(driver, folder, 16_000_000, count, 130)
    files = ring.files_of(folder)
    files[2].path.unlink()
    end_ns = FIRST_NS + 1000 * count
    [hole] = [one for one in account.missing(ring.files_of(folder), FIRST_NS, end_ns) if one.packets is None]
    assert files[1].first_ns < hole.since_ns <= files[2].first_ns and hole.until_ns == files[3].first_ns
    for file in ring.files_of(folder):
        file.path.unlink()
    with pytest.raises(MburstError, match=r"the ring has no packets of .*: it is empty"):
        source.of_ring([folder], FIRST_NS, end_ns)


@pytest.mark.parametrize("when", ["before its account", "between accounts", "before it is opened"])
def test_files_that_the_recorder_removes_meanwhile_are_a_hole(
    driver: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    """It removes the oldest ones, at any moment."""
    folder, count = tmp_path / "ring", 60_000
    kept = keep(driver, folder, 16_000_000, count, 130)
    files, end_ns, looked = ring.files_of(folder), FIRST_NS + 1000 * count, []

    def remove() -> None:
        for file in files[:2]:
            file.path.unlink(missing_ok=True)

    def account_of(path: Path, real: Any = account.account_of) -> Any:
        looked.append(path)
        if looked == [files[0].path] and when == "before its account":
            remove()
        found = real(path)
        if looked == [files[0].path] and when == "between accounts":
            remove()
        return found

    def opened(*given: Any, **more: Any) -> CapturedFrames:
        if when == "before it is opened":
            remove()
        return CapturedFrames(*given, **more)

    monkeypatch.setattr(account, "account_of", account_of)
    monkeypatch.setattr(source, "CapturedFrames", opened)
    found = source.open_source(lambda: source.of_ring([folder], FIRST_NS, end_ns), FIRST_NS, end_ns)
    remove()
    files[2].path.unlink()  # after it was opened, that does not matter
    stamps = [frame[1] for frame in found.frames()]
    assert stamps[0] == files[2].first_ns and len(stamps) == kept["packets"] - (files[2].first_ns - FIRST_NS) // 1000
    assert found.source.missing[0] == account.Missing(FIRST_NS, files[2].first_ns)


def test_nothing_is_written_if_the_disk_has_too_little_room(driver: Path, tmp_path: Path) -> None:
    folder = tmp_path / "ring"
    keep(driver, folder, 64_000_000, 1000, 130)
    kept = keep(driver, folder, 64_000_000, 1000, 130, reserve=2**62)
    assert (kept["packets"], kept["lost"]) == (0, 1000) and kept["trouble"] == "the disk has too little room"
    assert not ring.files_of(folder)


def test_other_files_in_the_folder_stay(driver: Path, tmp_path: Path) -> None:
    folder = tmp_path / "ring"
    folder.mkdir()
    (folder / "notes.pcapng").write_text("mine")
    (folder / ".0000000007.new").write_text("a recorder was killed here")
    (folder / "0000000009-0000000000000000001.pcapng").symlink_to(folder / "notes.pcapng")
    keep(driver, folder, 16_000_000, 200_000, 130)
    assert (folder / "notes.pcapng").read_text() == "mine" and not (folder / ".0000000007.new").exists()
    assert os.path.islink(folder / "0000000009-0000000000000000001.pcapng")


def test_a_truncated_block_ends_the_file(driver: Path, tmp_path: Path) -> None:
    """A recorder that is killed while it writes leaves such a block."""
    folder = tmp_path / "ring"
    keep(driver, folder, 64_000_000, 1000, 130)
    [file] = ring.files_of(folder)
    with open(file.path, "r+b") as stream:
        stream.truncate(file.path.stat().st_size - 150)
    assert account.account_of(file.path).until_ns == 0  # from the statistics, which were the last block
    frames = CapturedFrames([str(file.path)], 0, Y2200_NS)
    assert 990 <= sum(len(some) for some in iter(frames.read, None)) < 1000
    assert frames.notice
