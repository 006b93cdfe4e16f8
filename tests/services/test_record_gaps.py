"""Times that a recorder did not count are rows of `gaps`: bins, dropped packets and gaps add up to the interface's
counter."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import livelab
import pytest
from livelab import Lab
from liverecording import begin_recording
from mounts import tmpfs
from outcomes import outcome
from waiting import wait_for

from mburst.services.record import gaps
from mburst.services.record.gaps import GapWriter
from mburst.sql import StoreFolder, locks, new_writer

KILLS = int(os.environ.get("MBURST_FAULTS", "6") or 6)  # `make faults` asks for 100


def counter(lab: Lab, name: str = "rx_packets") -> int:
    return int(livelab.sh(f"ip netns exec {lab.far} cat /sys/class/net/{lab.b}/statistics/{name}"))


class Recorder:
    """`mburst record` of the far interface."""

    def __init__(self, lab: Lab, store: Path, *arguments: str, what: Sequence[str] = ()) -> None:
        self.lab, self.store = lab, store
        to = ["--direction", "in", "--host", "cache", "--bin", "1ms", "--backend", "afpacket", *arguments]
        self.process = begin_recording(lab, store, *(what or [lab.b]), *to)

    def begun(self) -> Recorder:
        """Waits until the recorder captures and has noted that in its lock."""

        def has_noted_it() -> bool:
            assert self.process.poll() is None, self.process.communicate()
            return self.process.pid in [locks.holder(self.store, name) for name in locks.names(self.store)]

        wait_for(has_noted_it, "its start")
        return self

    def stored(self, packets: int = 1) -> Recorder:
        """Waits until the recorder has stored bins with that many packets."""

        def has_them() -> bool:
            assert self.process.poll() is None, self.process.communicate()
            return bool(query(self.store, "SELECT coalesce(sum(packets), 0) FROM bins")[0][0] >= packets)

        wait_for(has_them, "bins")
        return self

    def end(self, number: signal.Signals | None) -> str:
        if number is not None:
            self.process.send_signal(number)
        return self.process.communicate(timeout=60)[1]


def query(store: Path, sql: str) -> list[tuple]:
    return StoreFolder.open(store).connect().execute(sql).fetchall()


@contextmanager
def sending(lab: Lab, sender: Path, rate: int = 3000, size: int = 300) -> Iterator[None]:
    """Sends RATE packets a second while the block runs."""
    command = ["ip", "netns", "exec", lab.near, str(sender), lab.a, str(10**8), str(rate), str(size)]
    process = subprocess.Popen(command)
    try:
        yield
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()


def explained(store: Path) -> tuple[int, int]:
    """Returns packets and bytes in bins, plus those in gaps that are not counted in a recording."""
    [(packets, octets)] = query(store, "SELECT sum(packets), sum(bytes) FROM bins")
    [(dropped, late)] = query(store, "SELECT sum(dropped), sum(late) FROM recordings")
    [(missed, missed_bytes)] = query(
        store,
        """
        SELECT coalesce(sum(packets), 0), coalesce(sum(bytes), 0) FROM gaps
        WHERE reason NOT IN ('dropped', 'reader too slow')""",
    )
    return packets + dropped + late + missed, octets + missed_bytes


def test_bins_and_gaps_equal_the_counter_through_kills(lab: Lab, sender: Path, tmp_path: Path) -> None:
    """A recorder is killed at random moments, again and again, while packets are sent. The last recorder begins and
    ends in silence: packets that arrive in the microseconds in which a recording begins cannot be separated from those
    before."""
    store, chooser = tmp_path / "store", random.Random(KILLS)
    before = counter(lab), counter(lab, "rx_bytes")
    recorder = Recorder(lab, store).begun()
    with sending(lab, sender):
        for kill in range(KILLS):
            if kill % 3:
                recorder.stored()
            time.sleep(chooser.random() * 0.7)
            recorder.end(signal.SIGKILL)
            time.sleep(chooser.random() / 4)
            recorder = Recorder(lab, store)
            if kill % 4:
                recorder.begun()
        recorder.stored()
    time.sleep(0.3)
    recorder.end(signal.SIGKILL)
    recorder = Recorder(lab, store).begun()
    lab.call(lab.near, f"{sender} {lab.a} 100 0 300")
    time.sleep(0.5)
    error = recorder.end(signal.SIGTERM)
    assert recorder.process.returncode == 0, error
    moved = counter(lab) - before[0], counter(lab, "rx_bytes") - before[1]
    assert query(store, "SELECT * FROM gaps WHERE end_ns IS NULL OR packets IS NULL OR bytes IS NULL") == []
    assert query(store, "SELECT DISTINCT ended FROM recordings ORDER BY ALL") == [("killed",), ("stopped",)]
    assert query(store, "SELECT count(*) FROM recordings") == query(store, "SELECT count(*) + 1 FROM gaps")
    assert {reason for (reason,) in query(store, "SELECT reason FROM gaps")} == {"killed"}
    assert explained(store) == moved
    totals = "SELECT recording_id, packets, bytes FROM recordings WHERE packets > 0 ORDER BY ALL"
    assert query(store, totals) == query(
        store, "SELECT recording_id, sum(packets), sum(bytes) FROM bins GROUP BY ALL ORDER BY ALL"
    )
    assert locks.names(store) == []
    outcome(
        "record live, killed and begun again",
        f"{KILLS} kills",
        f"bins and gaps are all {moved[0]:,} packets and {moved[1]:,} bytes of the interface's counter",
    )


def test_a_gap_is_open_until_the_interface_is_recorded_again(lab: Lab, sender: Path, tmp_path: Path) -> None:
    store = tmp_path / "store"
    recorder = Recorder(lab, store).begun()
    lab.call(lab.near, f"{sender} {lab.a} 500 0 300")
    recorder.stored(500).end(signal.SIGKILL)
    assert query(store, "SELECT ended, complete, packets FROM recordings") == [("", False, 500)]
    other = tmp_path / "other.pcap"  # the recorder of another input finds the dead one
    other.write_bytes(bytes.fromhex("d4c3b2a1020004000000000000000000ffff000001000000"))
    subprocess.run(
        [sys.executable, "-m", "mburst", "record", str(other), "-o", str(store)], check=True, capture_output=True
    )
    assert query(store, "SELECT ended, complete, packets, bytes FROM recordings") == [("killed", False, 500, 150_000)]
    [(end,)] = query(store, "SELECT max(ts_ns) + 1_000_000 FROM bins")
    assert query(store, "SELECT host, interface, direction, start_ns, end_ns, reason, packets FROM gaps") == [
        ("cache", lab.b, "in", end, None, "killed", None)
    ]
    lab.call(lab.near, f"{sender} {lab.a} 77 0 300")
    recorder = Recorder(lab, store).begun()
    lab.call(lab.near, f"{sender} {lab.a} 5 0 300")
    recorder.stored(505).end(signal.SIGINT)
    [(begun,)] = query(store, "SELECT max(begun_ns) FROM recordings")
    assert query(store, "SELECT end_ns, packets, bytes, detail FROM gaps") == [(begun, 77, 77 * 300, "")]


def test_killed_before_the_first_packet(lab: Lab, sender: Path, tmp_path: Path) -> None:
    """The recorder has stored no row, yet the packets that came until the next recorder are a gap."""
    store = tmp_path / "store"
    Recorder(lab, store).begun().end(signal.SIGKILL)
    assert len(locks.names(store)) == 1
    lab.call(lab.near, f"{sender} {lab.a} 40 0 300")
    recorder = Recorder(lab, store).begun()
    lab.call(lab.near, f"{sender} {lab.a} 2 0 300")
    recorder.stored(2).end(signal.SIGINT)
    assert query(store, "SELECT ended, packets FROM recordings ORDER BY begun_ns") == [("killed", 0), ("stopped", 2)]
    assert query(store, "SELECT reason, packets, end_ns > start_ns FROM gaps") == [("killed", 40, True)]


def test_an_interface_that_vanishes_and_is_created_again(lab: Lab, sender: Path, tmp_path: Path) -> None:
    """The recorder ends with one line. The gap begins there, and ends when the new interface is recorded."""
    store = tmp_path / "store"
    recorder = Recorder(lab, store).begun()
    lab.call(lab.near, f"{sender} {lab.a} 700 0 300")
    livelab.sh(f"ip -n {lab.far} link del {lab.b}")
    error = recorder.end(None)
    assert recorder.process.returncode == 1 and error.count("\n") == 1 and "has vanished" in error
    assert query(store, "SELECT ended, complete, packets FROM recordings") == [("failed", False, 700)]
    assert query(store, "SELECT reason, end_ns, packets FROM gaps") == [("failed", None, None)]
    assert locks.names(store) == []
    livelab.sh(f"ip link add {lab.a} netns {lab.near} type veth peer name {lab.b} netns {lab.far}")
    for namespace, name in ((lab.near, lab.a), (lab.far, lab.b)):
        livelab.sh(f"ip -n {namespace} link set {name} up")
    lab.call(lab.near, f"{sender} {lab.a} 1000 0 300")
    recorder = Recorder(lab, store).begun()
    lab.call(lab.near, f"{sender} {lab.a} 10 0 300")
    recorder.stored(710).end(signal.SIGTERM)
    [(over, packets, detail)] = query(store, "SELECT end_ns > start_ns, packets, detail FROM gaps")
    assert (over, packets) == (True, None) and "recreated" in detail


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to mount a small file system")
def test_a_full_disk_while_recording(lab: Lab, sender: Path, tmp_path: Path) -> None:
    """The recorder ends with one line and exit code 1. Acknowledged rows are stored, and the next start makes the rest
    a gap. If the recorder checks the free space between the last write that fits and the one that fails, it reports
    --reserve first."""
    with tmpfs(tmp_path / "disk", "size=600k") as disk:
        before = counter(lab)
        recorder = Recorder(lab, disk / "s", "--reserve", "1B").begun()
        with sending(lab, sender):
            error = recorder.end(None)
            *before_it, failure = error.splitlines()
            assert recorder.process.returncode == 1 and "No space left" in failure
            assert len(before_it) <= 1 and all("(--reserve)" in line for line in before_it)
            subprocess.run(["mount", "-o", "remount,size=100m", str(disk)], check=True)
        recorder = Recorder(lab, disk / "s").begun()
        lab.call(lab.near, f"{sender} {lab.a} 10 0 300")
        time.sleep(0.5)
        error = recorder.end(signal.SIGINT)
        assert (recorder.process.returncode, error) == (130, "")
        assert query(disk / "s", "SELECT ended FROM recordings ORDER BY begun_ns") == [("failed",), ("stopped",)]
        [(reason, missed, detail)] = query(disk / "s", "SELECT reason, packets, detail FROM gaps")
        assert (reason, detail) == ("disk full", "") and missed > 0
        assert explained(disk / "s")[0] == counter(lab) - before


def test_a_ring_that_overflows_is_a_gap(lab: Lab, sender: Path, tmp_path: Path) -> None:
    """The recorder pauses for a while, with a ring that is too small for that time."""
    store = tmp_path / "store"
    recorder = Recorder(lab, store, "--ring", "256KiB").begun()
    lab.call(lab.near, f"{sender} {lab.a} 50 0 300")
    recorder.stored(50)
    stopped_ns = time.time_ns()
    recorder.process.send_signal(signal.SIGSTOP)
    lab.call(lab.near, f"{sender} {lab.a} 20000 0 300")
    time.sleep(1.5)
    recorder.process.send_signal(signal.SIGCONT)
    time.sleep(0.5)
    lab.call(lab.near, f"{sender} {lab.a} 50 0 300")
    time.sleep(0.5)
    recorder.end(signal.SIGINT)
    [(packets, dropped)] = query(store, "SELECT packets, dropped FROM recordings")
    assert packets + dropped == 20_100 and dropped > 0
    rows = query(store, "SELECT reason, packets, start_ns, end_ns, detail FROM gaps")
    assert sum(missed for _, missed, *_ in rows) == dropped
    assert {reason for reason, *_ in rows} == {"reader too slow"}
    assert all(stopped_ns - 10**9 < start <= end < time.time_ns() for _, _, start, end, _ in rows)
    assert "did not read for" in rows[0][-1]


def test_a_gap_whose_packets_cannot_be_counted_has_no_number(lab: Lab, sender: Path, tmp_path: Path) -> None:
    """A filter leaves out packets that the interface counts: the gap states this in place of a number."""
    store = tmp_path / "store"
    Recorder(lab, store).begun().end(signal.SIGKILL)
    recorder = Recorder(lab, store, what=[lab.b, "ether", "proto", "0x88b5"]).begun()
    lab.call(lab.near, f"{sender} {lab.a} 9 0 300")
    recorder.stored(9).end(signal.SIGKILL)
    recorder = Recorder(lab, store).begun()
    lab.call(lab.near, f"{sender} {lab.a} 9 0 300")
    recorder.stored(18).end(signal.SIGINT)
    [first, second] = query(store, "SELECT packets, detail FROM gaps ORDER BY start_ns")
    assert first == (0, "")
    assert second == (None, "not known how many packets: the filter left packets out")


def test_a_restart_of_the_machine_is_distinguished_from_a_kill(lab: Lab, sender: Path, tmp_path: Path) -> None:
    """The rows and the lock of the dead recorder have another boot id."""
    store = tmp_path / "store"
    Recorder(lab, store).begun().end(signal.SIGKILL)
    [name] = locks.names(store)
    path = store / "locks" / name
    first, second = path.read_text().splitlines()
    note = json.loads(second)
    note["rows"][0]["boot_id"] = "another"
    path.write_text(f"{first}\n{json.dumps(note)}\n")
    recorder = Recorder(lab, store).begun()
    lab.call(lab.near, f"{sender} {lab.a} 9 0 300")
    recorder.stored(9).end(signal.SIGINT)
    [(reason, packets, detail)] = query(store, "SELECT reason, packets, detail FROM gaps")
    assert (reason, packets) == ("power", None) and "was restarted" in detail


def test_a_loss_around_a_step_of_the_clock_has_its_packets_in_one_gap(tmp_path: Path) -> None:
    """It is split at the step. How many packets the other part lost is not known: it has no number, not even 0."""
    names = ("recording_id", "host", "rack", "interface", "direction")
    store = StoreFolder.create(tmp_path / "store")
    writer = GapWriter(store, "x", "x", new_writer())
    hour, ms = 3600 * 10**9, 10**6
    losses = [(hour, hour + 20 * ms, 0, True), (5 * ms, 3000 * ms, 65_386, True), (3001 * ms, 3002 * ms, 4, False)]
    writer.look([*losses, (9 * hour, 9 * hour + ms, 1, False)], [dict.fromkeys(names, "x")])
    writer.close()
    gaps = query(store.path, "SELECT start_ns, packets, detail LIKE 'the clock was set %' FROM gaps ORDER BY ALL")
    assert gaps == [(5 * ms, 65_390, True), (hour, None, True), (9 * hour, 1, False)]


@pytest.mark.parametrize("step_s", [0, 3600, -3600])
def test_losses_while_the_recorder_did_not_read_are_in_the_time_of_either_clock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step_s: int
) -> None:
    """The clock was set meanwhile: a loss before that has the time of the old clock."""
    second = 10**9
    clock = SimpleNamespace(time_ns=lambda: 10_000 * second, monotonic_ns=lambda: 0)
    monkeypatch.setattr(gaps, "time", clock)
    store = StoreFolder.create(tmp_path / "store")
    writer = GapWriter(store, "x", "x", new_writer())
    clock.time_ns, clock.monotonic_ns = lambda: (10_003 + step_s) * second, lambda: 3 * second
    rows = [dict.fromkeys(("recording_id", "host", "rack", "interface", "direction"), "x")]
    old, new = 10_001 * second, (10_002 + step_s) * second
    writer.look([(old, old + 1000, 5, False), (new, new + 1000, 6, False)], rows)
    writer.close()
    found = query(store.path, "SELECT reason, detail, sum(packets)::INT FROM gaps GROUP BY ALL")
    assert found == [("reader too slow", "the recorder did not read for 3 s", 11)]
