"""`mburst record` of several interfaces in one process: each is recorded as by a process of its own, and none affects
another."""

from __future__ import annotations

import ctypes
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from types import SimpleNamespace

import livelab
import pytest
from bounded import next_line
from capture_rows import read_rows
from kernel_bins import TCX_EGRESS, TCX_INGRESS, attached, capabilities, many_senders, pair, raw_socket, tcpdump
from livelab import promiscuity, sh
from mounts import tmpfs
from waiting import wait_for

import mburst
from mburst.__main__ import main
from mburst.capture import Capture
from mburst.errors import MburstError
from mburst.process import alive
from mburst.services.record.several import _attached, _OneOfSeveral, _SaidOnce
from mburst.sql import StoreFolder, locks

__all__ = ["pair"]
TOTALS = "SELECT interface, direction, packets, bytes FROM recordings WHERE packets > 0 ORDER BY ALL"
SENDERS = "SELECT interface, source, sum(packets), sum(bytes) FROM sources GROUP BY ALL ORDER BY ALL"


@pytest.fixture
def two(pair):
    """Two links between the same hosts."""
    other = livelab.join(livelab.Lab(pair.near, pair.far, "veth-c", "veth-d"), "10.9.1")
    yield pair, other
    subprocess.run(["ip", "-n", pair.far, "link", "del", other.b], capture_output=True, check=False)


def query(store, text):
    with StoreFolder.open(store).connect() as connection:
        return connection.execute(text).fetchall()


@contextmanager
def recording(labs, store, **options):
    """Runs mburst.record of the far ends, from when they count until the end."""
    stop, before, failures = threading.Event(), [promiscuity(lab) for lab in labs], []

    def record():
        try:
            with labs[0].inside(labs[0].far):
                mburst.record([lab.b for lab in labs], store, stop=stop, sources="all", host="cache", **options)
        except BaseException as error:
            failures.append(error)

    thread = threading.Thread(target=record)
    thread.start()
    try:
        wait_for(
            lambda: failures or all(promiscuity(lab) > count for lab, count in zip(labs, before, strict=True)),
            "the recording's start",
        )
        yield failures
    finally:
        stop.set()
        thread.join()


def in_file(path):
    """Returns packets and bytes of the senders of a capture file, both directions together."""
    capture, found = Capture([str(path)], mtu=0), {}
    for row in read_rows(capture)[1]:
        packets, octets = found.get(row["source"], (0, 0))
        found[row["source"]] = packets + row["packets"], octets + row["bytes"]
    capture.close()
    return found


def test_each_is_recorded_as_by_a_process_of_its_own(two, tmp_path):
    """In the kernel and by packet sockets at once, compared with tcpdump."""
    first, second = two
    stores = {backend: tmp_path / backend for backend in ("ebpf", "afpacket")}
    with (
        tcpdump(first, tmp_path / "first"),
        tcpdump(second, tmp_path / "second"),
        recording(two, stores["ebpf"], backend="ebpf", link=f"{first.b}=1G"),
        recording(two, stores["afpacket"], backend="afpacket", link=f"{first.b}=1G"),
    ):
        many_senders(first, 700)
        many_senders(second, 300)
        with raw_socket(second, second.far, second.b) as leaving:
            for _ in range(50):
                leaving.send(b"\xff" * 6 + b"\2\0\0\0\0\7\x88\xb5" + bytes(200))
        time.sleep(0.2)
    totals = query(stores["ebpf"], TOTALS)
    packets = {(name, way): count for name, way, count, _ in totals}
    assert packets == {(first.b, "in"): 700, (second.b, "in"): 300, (second.b, "out"): 50}
    for store in stores.values():
        assert query(store, TOTALS) == totals
        assert query(store, SENDERS) == query(stores["ebpf"], SENDERS)
        assert query(store, "SELECT DISTINCT interface, link_bps FROM recordings ORDER BY ALL") == [
            (first.b, 10**9),
            (second.b, 10**10),
        ]
        assert query(store, "SELECT DISTINCT interface FROM clock ORDER BY ALL") == [(first.b,), (second.b,)]
        assert query(store, "SELECT count(DISTINCT capture_id), count(DISTINCT writer_id) FROM recordings") == [(2, 2)]
    for lab, name in ((first, "first"), (second, "second")):
        rows = query(stores["ebpf"], SENDERS)
        assert {source: tuple(counts) for of, source, *counts in rows if of == lab.b} == in_file(tmp_path / name)


def begin(labs, store, *words):
    """Starts `mburst record` in a process of its own, and returns once it has noted what it records."""
    names = [word for lab in labs for word in ("-i", lab.b)]
    command = [sys.executable, "-m", "mburst", "record", *names, "-o", str(store), "--backend", "ebpf", *words]
    process = subprocess.Popen(
        ["ip", "netns", "exec", labs[0].far, *command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )

    def has_begun():
        assert process.poll() is None, process.communicate()
        return [locks.holder(store, name) for name in locks.names(store)].count(process.pid) == len(labs)

    wait_for(has_begun, "the recorder's start")
    return process


def programs(labs):
    return [attached(lab, place) for lab in labs for place in (TCX_INGRESS, TCX_EGRESS)]


def test_an_interface_that_is_removed_ends_alone(two, tmp_path):
    """One line reports it, and a gap begins. The other interface continues, also under another name. The gap ends when
    both are recorded again."""
    (first, second), store = two, tmp_path / "store"
    process = begin(two, store, "--host", "cache")
    many_senders(first, 100)
    many_senders(second, 50)
    time.sleep(0.2)
    sh(f"ip -n {second.far} link del {second.b}")
    assert next_line(process, process.stderr).endswith(f"(recorded before that: 50 packets; {first.b} goes on)\n")
    sh(f"ip -n {first.far} link set {first.b} name renamed")
    assert f"{first.b}: the interface is called renamed now" in next_line(process, process.stderr)
    many_senders(first, 100)
    time.sleep(0.2)
    process.send_signal(signal.SIGTERM)
    output, error = process.communicate(timeout=60)
    sh(f"ip -n {first.far} link set renamed name {first.b}")
    assert process.returncode == 1 and "Traceback" not in error, error
    assert f"note: {first.b}: ended by SIGTERM" in output
    assert query(store, "SELECT interface, packets, ended, counter_packets IS NULL FROM recordings ORDER BY ALL") == [
        (first.b, 200, "stopped", False),
        (second.b, 50, "failed", True),
    ]
    assert query(store, "SELECT interface, reason, end_ns FROM gaps") == [(second.b, "failed", None)]
    livelab.join(second, "10.9.1")
    with recording(two, store, backend="ebpf"):
        many_senders(second, 10)
        time.sleep(0.2)
    assert query(store, "SELECT interface, end_ns > start_ns FROM gaps") == [(second.b, True)]
    assert locks.names(store) == []


def test_an_interface_that_is_renamed_repeatedly_is_still_recorded(two, tmp_path):
    """Some requests about an interface use its name, which may have changed by then."""
    (first, _), store = two, tmp_path / "store"
    process = begin(two[:1], store)
    there_and_back = f"link set {first.b} name renamed\nlink set renamed name {first.b}\n"
    for _ in range(20):
        subprocess.run(["ip", "-n", first.far, "-batch", "-"], input=there_and_back * 200, text=True, check=True)
        assert process.poll() is None, process.communicate()
    many_senders(first, 100)
    time.sleep(0.2)
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=60)
    assert process.returncode == 0
    assert query(store, "SELECT packets, ended, counter_packets IS NULL FROM recordings") == [(100, "stopped", False)]


def test_a_signal_that_interrupts_no_wait_is_handled(two, tmp_path):
    """A signal may arrive just before the main thread waits, which then continues to sleep. Here it goes to another
    thread."""
    store = tmp_path / "store"
    process = begin(two, store)
    wait_for(lambda: len(list(store.glob("hot/clock/*"))) == 2, "the recording of both interfaces")
    others = [int(name) for name in os.listdir(f"/proc/{process.pid}/task") if int(name) != process.pid]
    assert not ctypes.CDLL(None).tgkill(process.pid, max(others), signal.SIGINT)
    process.communicate(timeout=30)
    assert process.returncode == 130


def test_a_killed_recorder_leaves_nothing_attached_and_a_gap_for_each(two, tmp_path):
    (first, second), store = two, tmp_path / "store"
    process = begin(two, store, "--host", "cache")
    wait_for(lambda: not capabilities(process)["CapPrm:"], "the loss of its rights")
    assert programs(two) == [1, 1, 1, 1]
    many_senders(first, 30)
    many_senders(second, 20)
    wait_for(lambda: query(store, "SELECT sum(packets) FROM bins") == [(50,)], "bins")
    process.kill()
    process.communicate()
    wait_for(lambda: programs(two) == [0, 0, 0, 0], "the programs' end")
    with recording(two, store, backend="ebpf"):
        many_senders(first, 1)
        many_senders(second, 1)
        time.sleep(0.2)
    assert query(store, "SELECT interface, packets, ended FROM recordings WHERE packets > 1 ORDER BY ALL") == [
        (first.b, 30, "killed"),
        (second.b, 20, "killed"),
    ]
    assert query(store, "SELECT interface, reason, end_ns > start_ns FROM gaps ORDER BY ALL") == [
        (first.b, "killed", True),
        (second.b, "killed", True),
    ]


def test_a_full_disk_makes_a_gap_for_each_interface(two, tmp_path):
    with tmpfs(tmp_path / "disk", "size=600k") as disk:
        with recording(two, disk / "s", backend="ebpf", reserve="1B", bin="10us") as failures:
            while not failures:
                for lab in two:
                    many_senders(lab, 2000)
        assert isinstance(failures[0], MburstError) and "No space left" in str(failures[0])
        sh(f"mount -o remount,size=100m {disk}")
        with recording(two, disk / "s", backend="ebpf"):
            for lab in two:
                many_senders(lab, 1)
            time.sleep(0.2)
        # Packets that the interfaces send themselves, such as those of IPv6, have gaps too.
        assert query(disk / "s", "SELECT interface, reason FROM gaps WHERE direction = 'in' ORDER BY ALL") == [
            (lab.b, "disk full") for lab in two
        ]
        assert query(disk / "s", "SELECT sum(packets) FROM recordings") == query(
            disk / "s", "SELECT sum(packets) FROM bins"
        )


@pytest.mark.parametrize(
    ("words", "code", "text"),
    [
        (["-i", "{b}", "-i", "none"], 1, "none: no such interface (`ip link` lists them; nothing is recorded)"),
        (
            ["-i", "{b}", "-i", "longeralternative"],
            1,
            "longeralternative: no such interface by a name of at most 15 bytes (alternative names may be longer, give "
            "a short one; nothing is recorded)",
        ),
        (["{b}", "none"], 1, "none: neither an interface of this machine nor a filter"),
        (["{b}", "{b}"], 2, "{b}: this interface is named twice"),
        (["{b}", "any"], 2, "any is all interfaces"),
        (["{b}", "{d}", "--interface", "x"], 2, "--interface names one interface"),
        (["{b}", "{d}", "--backend", "pfring"], 2, "--backend pfring records one interface at a time"),
        (["{b}", "{d}", "--link", "{b}=1G,x=2G"], 2, "x is not among what is recorded"),
        (["{b}", "{d}", "--link", "{d}=much"], 2, "invalid link speed 'much'"),
        (["{b}", "{d}", "--filter", "udp", "--backend", "ebpf"], 1, "{b}: --backend ebpf has no --filter"),
        (["{b}", "{d}"], 1, "{d}: the interface is down"),
    ],
)
def test_no_interface_is_recorded_if_one_cannot_be(two, tmp_path, capsys, words, code, text):
    first, second = two
    names = {"b": first.b, "d": second.b}
    sh(f"ip -n {second.far} link set {second.b} down")
    store = tmp_path / "store"
    with first.inside(first.far):
        assert main(["record", *[word.format(**names) for word in words], "-o", str(store)]) == code
    [line] = capsys.readouterr().err.splitlines()
    assert text.format(**names) in line
    assert programs(two) == [0, 0, 0, 0] and locks.names(store) == []
    assert not store.exists() or StoreFolder.open(store).is_empty("recordings")


def test_a_speed_that_changes_is_reported(pair, tmp_path, capsys):
    if not os.path.exists("/dev/net/tun") or not shutil.which("ethtool"):
        pytest.skip("needs /dev/net/tun and ethtool, to have an interface whose speed can be set")
    tap = livelab.Lab(pair.near, pair.far, b="tap")
    sh(f"ip netns exec {pair.far} ip tuntap add tap mode tap")
    try:
        pair.call(pair.far, "ethtool -s tap speed 10000 duplex full autoneg off")
        sh(f"ip -n {pair.far} link set tap up")
        with recording([tap, pair], tmp_path / "store", backend="ebpf"):
            pair.call(pair.far, "ethtool -s tap speed 1000 duplex full autoneg off")
            wait_for(sys.stderr.getvalue, "the report")
    finally:
        sh(f"ip -n {pair.far} link del tap")
    text = "tap: the speed of the link changed, from 10 Gb/s to 1 Gb/s: "
    assert capsys.readouterr().err.startswith(f"mburst: {text}")
    notes = query(tmp_path / "store", f"SELECT interface, link_bps FROM recordings WHERE contains(notes, '{text}')")
    assert set(notes) == {("tap", 10**10)}


def test_a_sign_of_life_needs_one_of_every_interface(monkeypatch):
    given = []
    monkeypatch.setattr(alive, "beat", lambda: given.append(1))
    loops = alive.SeveralLoops(["a", "b"])
    loops.beat("a")
    loops.beat("a")
    assert not given
    loops.beat("b")
    loops.beat("b")
    assert len(given) == 1
    loops.end("a")  # an ended interface does not count
    assert len(given) == 2
    loops.beat("b")
    assert len(given) == 3


def test_a_message_of_all_interfaces_is_printed_once(capsys):
    said = _SaidOnce()
    for name, text in (("a", "low"), ("b", "low"), ("a", "room"), ("a", "low"), ("b", "room"), ("b", "low")):
        said.say(name, MburstError(text))
    assert capsys.readouterr().err.splitlines() == ["mburst: low", "mburst: room", "mburst: low"]


def test_all_are_released_if_releasing_one_fails(monkeypatch):
    released = []

    def release(name):
        released.append(name)
        raise OSError(name)

    def attach(one, *_):
        one.held.callback(release, one.name)
        if one.name == "c":
            raise MburstError("no such interface")

    monkeypatch.setattr(_OneOfSeveral, "attach", attach)
    with pytest.raises(OSError), _attached(None, [SimpleNamespace(targets=[name]) for name in "abc"]):
        pass
    assert sorted(released) == ["a", "b", "c"]
