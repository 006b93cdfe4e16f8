"""`mburst record --keep-packets` keeps the last packets on the disk, however the recorder ends, and `mburst extract`
returns those of a burst as tcpdump captured them."""

from __future__ import annotations

import re
import shutil
import stat
import time
from contextlib import suppress
from pathlib import Path

import pytest
from keptlib import (
    APART_S,
    DEFINITION,
    EACH,
    SENDERS,
    TSHARK,
    dumping,
    incast,
    keeping,
    listed,
    mburst,
    ring_files,
    tshark,
)
from livelab import Lab
from waiting import wait_for

pytestmark = pytest.mark.skipif(not shutil.which("tshark"), reason="packets are compared with tshark's")


def test_the_packets_of_the_last_burst_equal_those_of_tcpdump(lab: Lab, tmp_path: Path) -> None:
    theirs, store, ours = tmp_path / "tcpdump.pcap", tmp_path / "store", tmp_path / "burst.pcapng"
    with dumping(lab, theirs), keeping(lab, store):
        for _ in range(3):
            incast(lab)
            time.sleep(APART_S)
        wait_for(lambda: theirs.stat().st_size >= 3 * SENDERS * EACH * (16 + 128), "tcpdump")
    done = mburst("extract", store, "--burst", "last", "--direction", "in", *DEFINITION, "-o", ours)
    assert done.returncode == 0 and not done.stderr, done.stderr
    burst = listed(store, "--direction", "in")[-1]
    since_s, until_s = (f"{int(str(burst[at])) / 1e9:.9f}" for at in ("start_ns", "end_ns"))
    around = f"frame.time_epoch >= {float(since_s) - 0.05:.6f} && frame.time_epoch < {float(until_s) + 0.05:.6f}"
    seen = tshark(theirs, "-Y", around, *TSHARK)
    assert seen and sorted(tshark(ours, *TSHARK)) == sorted(seen)
    comments = tshark(ours, "-Y", "frame.comment", "-T", "fields", "-e", "frame.comment")
    assert sum("mburst: sender 10.0.0." in one for one in comments) == SENDERS
    assert all(stat.S_IMODE(path.stat().st_mode) == 0o600 for path in [*ring_files(store), ours])


def test_a_killed_recorder_loses_only_the_last_moment(lab: Lab, tmp_path: Path) -> None:
    store, ours = tmp_path / "store", tmp_path / "burst.pcapng"
    with keeping(lab, store) as recorder:
        incast(lab)
        time.sleep(1.5)
        recorder.kill()
    assert (
        mburst(
            "extract", store, "--burst", "last", "--direction", "in", *DEFINITION, "-o", ours, "--around", "1s"
        ).returncode
        == 0
    )
    assert len(tshark(ours, "-Y", "ip.src != 192.0.2.1")) == 200
    with keeping(lab, store):
        incast(lab)
        time.sleep(0.5)
    assert len({path.parent for path in ring_files(store)}) == 1, "the ring of the dead recorder goes on"
    done = mburst("extract", store, "--burst", "last", "--direction", "in", *DEFINITION, "-o", ours, "--around", "1m")
    assert done.returncode == 0 and "the ring has no packets from" in done.stderr


def test_the_ring_stays_within_its_size(lab: Lab, tmp_path: Path) -> None:
    store, sizes = tmp_path / "store", []

    def size() -> int:
        """Returns the size of the ring; the recorder may remove a file meanwhile."""
        octets = 0
        for path in ring_files(store):
            with suppress(FileNotFoundError):
                octets += path.stat().st_size
        return octets

    with keeping(lab, store, "--snaplen", "2000"):
        incast(lab)
        time.sleep(APART_S)
        for _ in range(30):
            incast(lab, each=100)
            sizes.append(size())
        wait_for(lambda: sizes.append(size()) or len(ring_files(store)) >= 14, "the ring to be full")
        sizes.append(size())
    assert 13_000_000 < max(sizes) <= 16_000_000
    numbers = [int(path.name.partition("-")[0]) for path in ring_files(store)]
    assert numbers[0] > 1 and numbers == list(range(numbers[0], numbers[-1] + 1))
    done = mburst("extract", store, "--burst", "1", "--direction", "in", *DEFINITION, "-o", tmp_path / "gone.pcapng")
    assert done.returncode == 1 and "the ring has no packets of" in done.stderr and "begins at" in done.stderr
    assert not (tmp_path / "gone.pcapng").exists()
    done = mburst("extract", store, "--burst", "2", "--direction", "in", *DEFINITION, "-o", tmp_path / "part.pcapng")
    assert done.returncode == 1 and "the ring has no packets from" in done.stderr
    assert re.search(r"the recording counted [\d,]+ packets in the burst, and [\d,]+ are", done.stderr)


def test_two_recorders_of_one_interface_have_separate_rings(lab: Lab, tmp_path: Path) -> None:
    store = tmp_path / "store"
    with keeping(lab, store), keeping(lab, store):
        incast(lab)
        time.sleep(0.5)
    assert {path.parent.name for path in ring_files(store)} == {lab.b, f"{lab.b}~2"}
    checked = mburst("check", store)
    assert checked.returncode == 0 and "packets" not in checked.stdout, "a ring is a part of a store"
