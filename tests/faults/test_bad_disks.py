"""Disks that are full, out of inodes, read-only or broken: one line reports it, acknowledged rows are kept, and mburst
continues when the disk does."""

from __future__ import annotations

import signal
import subprocess
import time
from pathlib import Path

import pytest
from captured import PACKETS, write_capture
from disks import in_memory, loop, make_image, need
from faultlib import Follower, assert_sealed, end, failure, held, mburst, query, succeed, times
from labrecorder import TABLES, finish, recorder, recording, running, sending, wait_until_recorded
from livelab import Lab, sh
from mounts import mounted, need_root, tmpfs
from outcomes import outcome
from waiting import wait_for

from mburst.sql import StoreFolder
from mburst.sql.repair.repair import repair


def fill(folder: Path) -> Path:
    """Creates a file that takes all the free space."""
    with (folder / "filler").open("wb", buffering=0) as filler:
        try:
            while True:
                filler.write(b"x" * 4096)
        except OSError:
            return folder / "filler"


def record_until_it_fails(lab: Lab, store: Path, fault) -> tuple[str, dict[str, list]]:
    """Records, causes FAULT, and waits until the recording ends by itself. Returns its output, and what was
    acknowledged."""
    follower = Follower(store, *TABLES)
    with sending(lab), recording(lab, store) as process:
        follower.wait()
        fault()
        code, error = end(process)
    kept = {table: held(store, table) for table in TABLES}
    followed = follower.stop()
    assert code == 1, error
    return failure(error), {table: kept[table] + followed[table] for table in TABLES}


def test_a_disk_that_fills_while_recording_live(lab: Lab, tmp_path: Path) -> None:
    for _ in times(1):
        with tmpfs(tmp_path / "disk", "size=8m") as folder:
            store = StoreFolder.create(folder / "store").path
            output, acknowledged = record_until_it_fails(lab, store, lambda: fill(folder))
            assert "No space left on device" in output
            (folder / "filler").unlink()
            left = finish(lab, store, acknowledged)
    outcome("record live, disk full", len(times(1)), f"one line, exit 1; {left}")


def test_bins_are_still_recorded_below_the_reserve(lab: Lab, tmp_path: Path) -> None:
    """They use the room that sealing frees: more is recorded than the whole disk would hold in logs. Senders are
    summed, which is reported and counted, and no packet is lost."""
    with tmpfs(tmp_path / "disk", "size=1m") as folder:
        store = StoreFolder.create(folder / "store").path
        words = ("--reserve", "1100k", "--bin", "10us", "--sources", "all")

        def sealed() -> int:
            """Returns how many logs of bins, at 110 kB each, were sealed."""
            return len(list(store.glob("bins/*/*/*.parquet")))

        with sending(lab, rate=32_000, senders=16), recording(lab, store, *words) as process:
            wait_for(lambda: process.poll() is not None or sealed() > 9, "more than the disk")
            code, error = end(process, signal.SIGTERM)
        assert code == 0 and error.count("less than 1.1 MB of the disk are free (--reserve)") == 1
        assert_sealed(store)
        [(packets, dropped, notes)] = query(store, "SELECT packets, dropped, notes FROM recordings")
        assert dropped == 0 and "rows of senders summed up for lack of disk" in notes
        sums = "SELECT sum(packets), sum(bytes) FROM"
        assert query(store, f"{sums} sources") == query(store, f"{sums} bins") and packets > 0
        assert query(store, "SELECT bool_or(source = 'other') FROM sources") == [(True,)]
        assert query(store, "FROM gaps") == query(store, "FROM damaged_files") == []


def test_run_goes_on_when_there_is_room_again(lab: Lab, tmp_path: Path) -> None:
    with tmpfs(tmp_path / "disk", "size=8m") as folder:
        store, log = StoreFolder.create(folder / "store").path, tmp_path / "log"
        with sending(lab), running(lab, tmp_path, store) as process:
            wait_for(lambda: recorder(process.pid), "the recorder's start")
            wait_until_recorded(store)
            follower = Follower(store, *TABLES)
            fill(folder)
            wait_for(lambda: "record failed (1)" in log.read_text(), "its end")
            assert "No space left on device" in log.read_text()
            (folder / "filler").unlink()
            wait_until_recorded(store)
        left = finish(lab, store, follower.stop())
        assert query(store, "SELECT count(DISTINCT capture_id) > 2 FROM recordings") == [(True,)]
    outcome("run, disk full and free again", 1, f"goes on; {left}")


def test_a_disk_that_fills_while_a_file_is_recorded(tmp_path: Path) -> None:
    need_root()
    file = write_capture(tmp_path / "a.pcap")
    full = 0
    for attempt in times(3):
        with tmpfs(tmp_path / "disk", f"size={200 + 400 * attempt % 5000}k") as folder:
            first = mburst("record", file, "-o", folder / "store", "--link", "10G", "--bin", "10us")
            if first.returncode:
                full += 1
                assert "No space left on device" in failure(first.stderr)
            sh(f"mount -o remount,size=100m {folder}")
            succeed("record", file, "-o", folder / "store", "--link", "10G", "--bin", "10us")
            for table in ("recordings", "bins", "sources"):
                assert query(folder / "store", f"SELECT sum(packets) FROM {table}") == [(PACKETS,)]
            assert_sealed(folder / "store")
    assert full
    outcome("record FILE, disk full, again", f"{len(times(3))} disks, {full} full", "sums of the file in all")


def test_a_disk_without_inodes(lab: Lab, tmp_path: Path) -> None:
    with tmpfs(tmp_path / "disk", "size=50m,nr_inodes=40") as folder:
        store = StoreFolder.create(folder / "store").path

        def take_all() -> None:
            for number in range(100):
                try:
                    (folder / f"inode{number}").touch()
                except OSError:
                    return

        follower = Follower(store, *TABLES)
        with sending(lab), recording(lab, store, roll_s=0.5) as process:
            follower.wait()
            take_all()
            code, error = end(process)
        assert code == 1 and "No space left on device" in error, error
        kept = {table: held(store, table) for table in TABLES}
        followed = follower.stop()
        for path in folder.glob("inode*"):
            path.unlink()
        sh(f"mount -o remount,nr_inodes=400 {folder}")
        left = finish(lab, store, {table: kept[table] + followed[table] for table in TABLES})
    outcome("record live, no inodes left", 1, f"exit 1; {left}")


@pytest.mark.parametrize("command", ["bursts", "sql"])
def test_verbs_answer_from_a_full_disk(tmp_path: Path, command: str) -> None:
    file = write_capture(tmp_path / "a.pcap", 20_000)
    with tmpfs(tmp_path / "disk", "size=20m") as folder:
        store = folder / "store"
        succeed("record", file, "-o", store, "--link", "10G")
        fill(folder)
        for ledger in store.rglob(".verified"):  # without write access, files are verified each time
            ledger.unlink()
        answer = succeed(command, store, *(["recordings"] if command == "sql" else []))
        assert answer.stderr == ""


def test_a_file_system_error_while_recording(lab: Lab) -> None:
    need_root()
    need("mkfs.ext4")
    with in_memory() as folder:
        image = make_image(folder / "image", "ext4")
        with loop(image) as device, mounted(device, folder / "disk", "-o", "errors=remount-ro") as disk:
            trigger = Path("/sys/fs/ext4") / Path(device).name / "trigger_fs_error"
            if not trigger.exists():
                pytest.skip("this kernel cannot be asked for an error of ext4")
            store = StoreFolder.create(disk / "store").path
            broken = 0.0

            def fault() -> None:
                nonlocal broken
                time.sleep(1.5)
                broken = time.monotonic()
                trigger.write_text("1")

            follower = Follower(store, *TABLES)
            with sending(lab), recording(lab, store) as process:
                follower.wait()
                fault()
                code, error = end(process)
            followed = follower.stop()
            assert code == 1, error
            failure(error)
            assert "Read-only file system" in error or "Input/output error" in error
            assert succeed("sql", store, "SELECT count(*) FROM bins").stdout
        with loop(image) as device, mounted(device, folder / "disk") as disk:
            store = disk / "store"
            safe = {
                table: [
                    rows
                    for rows, (at, *_) in zip(
                        followed[table], [came for came in follower.came if came[1] == table], strict=True
                    )
                    if at < broken - 1.5
                ]
                for table in TABLES
            }
            list(repair(store))  # pages in the middle of a log may be missing: it is damaged then, and named
            left = finish(lab, store, safe)
    outcome("record live, file system error", 1, f"one line, exit 1; mounted again: {left}")


def test_a_disk_that_fails_when_it_writes_back(lab: Lab) -> None:
    """200 MB of ext4 on a disk of 12 MB: the kernel accepts the rows, and reports later that it could not write
    them."""
    need_root()
    need("mkfs.ext4")
    with in_memory() as outer, tmpfs(outer / "small", "size=12m") as small:
        image = make_image(small / "image", "ext4", 200 << 20)
        with loop(image) as device, mounted(device, outer / "disk") as disk:
            store = StoreFolder.create(disk / "store").path
            with sending(lab, 20_000, senders=100), recording(lab, store, "--bin", "10us") as process:
                wait_until_recorded(store)
                subprocess.run(
                    ["dd", "if=/dev/urandom", f"of={disk}/filler", "bs=1M", "count=40", "conv=fsync"],
                    capture_output=True,
                    check=False,
                )
                code, error = end(process)
            assert code == 1, error
            message = failure(error)  # the recorder encounters one of them first
            assert any(reason in message for reason in ("Input/output error", "No space", "Read-only file system"))
            assert mburst("sql", store, "SELECT count(*) FROM bins").stderr.count("\n") <= 2
    outcome("record live, writeback fails", 1, "one line, exit 1; the store is read without what is damaged")


def test_a_read_only_store_can_be_queried(tmp_path: Path) -> None:
    file = write_capture(tmp_path / "a.pcap", 20_000)
    with tmpfs(tmp_path / "disk", "size=20m") as folder:
        store = folder / "store"
        succeed("record", file, "-o", store, "--link", "10G")
        sh(f"mount -o remount,ro {folder}")
        assert succeed("bursts", store).stderr == ""
        other = mburst("record", write_capture(tmp_path / "b.pcap", 1000, seed=2), "-o", store, "--link", "10G")
        assert other.returncode == 1 and "Read-only file system" in failure(other.stderr)
    outcome("record FILE, read-only disk", 1, "one line, exit 1; queries answer")
