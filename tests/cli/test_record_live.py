"""`mburst record INTERFACE` as users run it: in a namespace, until a signal ends it."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
import time

import frame_builder as make
import livelab
import pytest
from building import library
from liverecording import Recording, send, send_flows, store
from waiting import wait_for

from mburst.sql import StoreFolder, locks

__all__ = ["store"]
GRO = 64  # bit of quality


@pytest.mark.parametrize("backend", ["afpacket", "libpcap"])
def test_until_ctrl_c(lab, sender, store, backend):
    recording = Recording(lab, store, lab.b, "--backend", backend, "--link", "1G", "--host", "cache").begun()
    send(lab, sender, 5000)
    time.sleep(0.5)
    rows = recording.end(signal.SIGINT)
    assert recording.code == 130, recording.error
    [row] = [row for row in rows if row["direction"] == "in"]
    assert (row["packets"], row["bytes"], row["dropped"]) == (5000, 2_500_000, 0)
    assert row["wire_bytes"] == 5000 * 524
    assert row["backend"] == backend and row["host"] == "cache" and row["link_bps"] == 10**9
    assert row["complete"] and row["clock"].startswith("kernel")
    assert "ended by SIGINT" in row["notes"]
    of_run = f"FROM bins WHERE recording_id = '{row['recording_id']}'"
    assert recording.query(f"SELECT sum(packets), sum(bytes) {of_run}") == [(5000, 2_500_000)]
    assert recording.query("SELECT sum(packets) FROM sources WHERE source = '02:00:00:00:00:01'") == [(5000,)]


def test_for_a_while_with_a_filter_and_the_clock(lab, sender, store):
    recording = Recording(
        lab, store, lab.b, "ether", "proto", "0x88b5", "--duration", "2500ms", "--direction", "in", "--threads", "2"
    ).begun()
    send(lab, sender, 1000)
    [row] = recording.end()
    assert recording.code == 0
    assert row["packets"] == 1000 and row["filter"] == "ether proto 0x88b5" and row["link_bps"] == 10**10
    clock = recording.query("SELECT interface, ts_ns, monotonic_raw_ns FROM clock ORDER BY ts_ns")
    assert len(clock) >= 2 and {name for name, *_ in clock} == {lab.b}
    (_, t0, raw0), *_, (_, t1, raw1) = clock
    assert abs((t1 - t0) - (raw1 - raw0)) < 10_000_000


def test_every_backend_and_tcpdumps_file_give_the_same_bins(lab, sender, store, tmp_path):
    file = tmp_path / "tcpdump.pcap"
    tcpdump = ["tcpdump", "-i", lab.b, "--time-stamp-precision=nano", "-Z", "root", "-Q", "in", "-s", "128"]
    dumper = subprocess.Popen(
        ["ip", "netns", "exec", lab.far, *tcpdump, "-w", str(file)], stderr=subprocess.PIPE, text=True
    )
    assert dumper.stderr
    while "listening on" not in dumper.stderr.readline():
        assert dumper.poll() is None
    # A busy machine may read one ring of two later than the other.
    arguments = [lab.b, "--direction", "in", "--bin", "100us", "--sources", "all", "--reorder-window", "100ms"]
    by = {name: ["--backend", name] for name in ("afpacket", "libpcap")}
    sources = {"afpacket": by["afpacket"], "threads": ["--threads", "2"], "libpcap": by["libpcap"]}
    live = {name: Recording(lab, store / name, *arguments, *source).begun() for name, source in sources.items()}
    time.sleep(0.7)
    for size in (60, 500, 1514):
        send(lab, sender, 2000, rate=20_000, size=size)
    send_flows(lab, 40, 50)
    time.sleep(1.2)
    dumper.send_signal(signal.SIGINT)
    dumper.communicate()
    for recording in live.values():
        recording.end(signal.SIGINT)
    subprocess.run(
        [sys.executable, "-m", "mburst", "record", str(file), "--bin", "100us", "-o", str(store / "file")],
        check=True,
        capture_output=True,
    )
    for name in sources:
        losses = "SELECT dropped, late FROM recordings"
        assert StoreFolder.open(store / name).connect().execute(losses).fetchall() == [(0, 0)], name
    bins = "SELECT ts_ns, bytes, wire_bytes, packets FROM bins ORDER BY ts_ns"
    senders = "SELECT ts_ns, source, bytes, packets, first_ns, last_ns FROM sources ORDER BY ts_ns, source"
    for sql in (bins, senders):
        by_file, *others = [
            StoreFolder.open(store / name).connect().execute(sql).fetchall() for name in ("file", *sources)
        ]
        assert len(by_file) > 100
        assert others == [by_file] * 3


@pytest.mark.parametrize("backend", ["afpacket", "libpcap"])
def test_merged_frames_have_the_bytes_of_the_wire(lab, store, backend):
    """TCP with TSO and GRO on and off: the engine's live bins agree with the sender's counters, and with each other."""
    count, wire = 30_000_000, {}
    for state in ("on", "off"):
        lab.offloads(state)
        recording = Recording(lab, store / state, lab.b, "tcp dst port 5201", "--backend", backend).begun()
        segments = livelab.transfer(lab, count)
        time.sleep(0.3)
        [row] = recording.end(signal.SIGINT)
        assert row["direction"] == "in" and row["dropped"] == row["late"] == 0
        assert row["wire_bytes"] == pytest.approx(count + segments * (14 + 20 + 32 + 24), rel=0.005)
        [(wire[state], packets)] = recording.query("SELECT sum(wire_bytes), sum(packets) FROM bins")
        assert (wire[state], packets) == (row["wire_bytes"], row["packets"])
        assert (packets < segments / 2) == (state == "on")  # frames as they were handed over
        assert bool(row["quality"] & GRO) == ("merged by GRO or TSO" in row["offloads"]) == (state == "on")
        [(attributed,)] = recording.query("SELECT sum(bytes) FROM sources WHERE source = '10.9.0.1'")
        assert attributed == row["bytes"]
    assert wire["on"] == pytest.approx(wire["off"], rel=0.005)


@pytest.mark.parametrize("name", ["veth-b", "uplink"])
@pytest.mark.parametrize("backend", ["afpacket", "libpcap", "ebpf"])
def test_an_interface_with_two_names_that_is_renamed(lab, store, sender, backend, name):
    """Rows have the name that was asked for. The rename is reported only once, not for the second name."""
    livelab.sh(f"ip -n {lab.far} link property add dev {lab.b} altname uplink")
    recording = Recording(lab, store, name, "--backend", backend).begun()
    recording.looks()
    lab.call(lab.far, f"ip link set {lab.b} name renamed")
    recording.says(f"{name}: the interface is called renamed now; it is recorded as before")
    send(lab, sender, 100)
    recording.looks()
    rows = recording.end(signal.SIGINT)
    assert sum(row["packets"] for row in rows) == 100 and {row["interface"] for row in rows} == {name}
    assert recording.error.count("called") == 1


@pytest.mark.parametrize("backend", ["afpacket", "libpcap", "ebpf"])
def test_frames_of_a_grown_mtu_are_not_taken_for_merged_frames(lab, store, backend):
    recording = Recording(lab, store, lab.b, "--backend", backend, "--direction", "in").begun()
    recording.looks()
    for namespace, name in ((lab.near, lab.a), (lab.far, lab.b)):
        livelab.sh(f"ip -n {namespace} link set {name} mtu 9000")
    payload = make.udp(bytes(5000 - 14 - 20 - 8), (1, 2))
    frame = make.ethernet(make.ipv4(payload, make.UDP, 0x0A090001, 0x0A090002), 0x0800)
    with livelab.raw_socket(lab, lab.near, lab.a) as out:
        for _ in range(500):
            out.send(frame)
    recording.says("the MTU changed")
    [row] = recording.end(signal.SIGINT)
    assert (row["packets"], row["bytes"], row["wire_bytes"]) == (500, 500 * 5000, 500 * 5024)
    assert not row["quality"] & GRO and not row["offloads"]
    assert f"{lab.b}: the MTU changed, from 1,500 to 9,000: IP packets of up to 9,000 bytes" in row["notes"]


@pytest.mark.parametrize("backend", ["afpacket", "libpcap"])
def test_merged_frames_beyond_a_grown_mtu_are_detected(lab, store, backend):
    lab.offloads("on")
    recording = Recording(lab, store, lab.b, "tcp dst port 5201", "--backend", backend).begun()
    for namespace, name in ((lab.near, lab.a), (lab.far, lab.b)):
        livelab.sh(f"ip -n {namespace} link set {name} mtu 9000")
    count = 30_000_000
    segments = livelab.transfer(lab, count)
    time.sleep(0.3)
    [row] = recording.end(signal.SIGINT)
    assert row["wire_bytes"] == pytest.approx(count + segments * (14 + 20 + 32 + 24), rel=0.005)
    assert row["quality"] & GRO and "larger than an MTU of 9,000" in row["offloads"]


def test_rows_can_be_read_while_recording(lab, sender, store):
    """In silence, too: bins close as time passes."""
    recording = Recording(lab, store, lab.b, "--direction", "in").begun()
    send(lab, sender, 300)
    recording.stored(300)
    recording.end(signal.SIGTERM)


def test_the_interface_vanishes(lab, sender, store):
    recording = Recording(lab, store, lab.b, "--direction", "in").begun()
    send(lab, sender, 700)
    livelab.sh(f"ip -n {lab.far} link del {lab.b}")
    recording.end()
    assert recording.code == 1
    assert recording.error.startswith("mburst: ") and "has vanished" in recording.error
    assert "(recorded before that: 700 packets)" in recording.error
    assert recording.error.count("\n") == 1
    [(packets, complete, notes)] = recording.query("SELECT packets, complete, notes FROM recordings")
    assert (packets, complete) == (700, False) and "has vanished" in notes


@pytest.mark.parametrize("threads", ["1", "2"])
def test_the_kernel_runs_out_of_buffers(lab, sender, store, tmp_path, threads):
    no_buffers, flag = library("tests/c/no_buffers.c"), tmp_path / "now"
    recording = Recording(
        lab,
        store,
        lab.b,
        "--direction",
        "in",
        "--backend",
        "afpacket",
        "--threads",
        threads,
        environment={"LD_PRELOAD": str(no_buffers), "NO_BUFFERS": str(flag)},
    ).begun()
    send(lab, sender, 700)
    flag.touch()
    recording.end()
    assert recording.code == 1
    assert recording.error == (
        f"mburst: {lab.b}: the capture broke off: No buffer space available (recorded before that: 700 packets)\n"
    )
    [(packets, complete, notes)] = recording.query("SELECT packets, complete, notes FROM recordings")
    assert (packets, complete) == (700, False) and "No buffer space available" in notes


def test_losses_are_flagged_in_the_bins_of_their_time(lab, sender, store):
    """The recorder is stopped and its ring is too small: bins are flagged from then on."""
    recording = Recording(lab, store, lab.b, "--direction", "in", "--ring", "256KiB", "--bin", "1ms").begun()
    send(lab, sender, 50)
    recording.stored(50)
    recording.process.send_signal(signal.SIGSTOP)
    send(lab, sender, 20_000)
    recording.process.send_signal(signal.SIGCONT)
    sent = 20_050

    def is_over() -> bool:
        nonlocal sent
        send(lab, sender, 50)
        sent += 50
        losing = [losing for (losing,) in recording.query("SELECT quality & 32 > 0 FROM bins ORDER BY ts_ns")]
        return any(losing) and not losing[-1]

    wait_for(is_over, "bins without losses after those with losses")
    [row] = recording.end(signal.SIGINT)
    assert row["dropped"] > 0
    assert row["packets"] + row["dropped"] == sent
    assert row["quality"] & 32
    bins = recording.query("SELECT ts_ns, packets, quality & 32 > 0 FROM bins ORDER BY ts_ns")
    losing = [losing for _, _, losing in bins]
    assert not losing[0] and not losing[-1] and any(losing)
    assert sum(packets for _, packets, _ in bins) == row["packets"]


def test_bins_finer_than_the_stamps_are_refused_unless_forced(lab, store):
    """What TCP sends over a veth has no stamp of receipt, only one of the ring."""

    def talk():
        with lab.inside(lab.far):
            listener = socket.create_server(("10.9.0.2", 5202))
        with lab.inside(lab.near):
            out = socket.create_connection(("10.9.0.2", 5202))
        incoming, _ = listener.accept()
        with listener, out, incoming:
            for _ in range(300):
                out.send(b"x" * 1000)
                incoming.recv(1000)

    coarse = [lab.b, "--backend", "afpacket", "--direction", "in", "--bin", "10us"]
    refused = Recording(lab, store, *coarse).begun()
    talk()
    refused.end()
    assert refused.code == 1 and "too coarsely for bins of 10 µs" in refused.error and "--force" in refused.error
    forced = Recording(lab, store, *coarse, "--force").begun()
    talk()
    time.sleep(0.3)
    [row] = forced.end(signal.SIGINT)
    assert row["packets"] > 300 and "ring" in row["clock"]


@pytest.mark.parametrize(
    ("arguments", "code", "reason"),
    [
        (["nosuch0"], 1, "nosuch0: no such file or interface: `ip link` lists the interfaces"),
        (["lo", "udp", "--backend", "ebpf"], 1, "has no --filter, it counts every frame: use --backend afpacket"),
        (["lo", "--stamps", "hw", "--backend", "ebpf"], 1, "it counts by the kernel's clock: use --backend afpacket"),
        (["lo", "--local", "1.2.3"], 2, "invalid IP or MAC address '1.2.3' (examples: 10.0.0.7, 2001:db8::7, "),
        (["lo", "--duration", "soon"], 2, "invalid duration 'soon'"),
        (["lo", "--ring", "big"], 2, "invalid size 'big'"),
        (["lo", "--threads", "0"], 2, "--threads must be at least 1, not 0"),
        (["lo", "--stamps", "hw"], 1, "has no hardware stamps"),
        (["lo", "tcp", "prot", "80"], 1, "filter 'tcp prot 80'"),
    ],
)
def test_each_error_is_one_line(lab, store, arguments, code, reason):
    recording = Recording(lab, store, *arguments)
    recording.end()
    assert recording.code == code and reason in recording.error
    assert recording.error.count("\n") == 1


def test_an_interface_that_stays_silent(lab, store):
    recording = Recording(lab, store, lab.b, "--duration", "500ms", "--direction", "in", "--link", "1G")
    [row] = recording.end()
    assert recording.code == 0
    assert (row["packets"], row["start_ns"], row["direction"], row["complete"]) == (0, None, "in", True)
    assert (row["interface"], row["link_bps"], row["clock_epochs"]) == (lab.b, 10**9, 1)
    assert "no packet in " in row["notes"]
    assert recording.query("SELECT direction, packets, complete FROM recordings") == [("in", 0, True)]
    shown = subprocess.run([sys.executable, "-m", "mburst", "bursts", str(store)], capture_output=True, text=True)
    assert (shown.returncode, shown.stderr) == (0, "") and "no burst" in shown.stdout


WHEN = {
    "begun_ns",
    "capture_id",
    "complete",
    "ended",
    "notes",
    "recording_id",
    "written_ns",
    "writer_id",
    "counted_segments",
    "clock",
}


@pytest.mark.parametrize("backend", ["afpacket", "ebpf"])
def test_the_rows_noted_at_the_start_equal_those_at_the_end(lab, store, backend):
    """A recorder that dies before the first packet is found by the noted rows. Counters that a backend lacks are NULL
    in both."""
    recording = Recording(lab, store, lab.b, "--backend", backend, "--link", "1G").begun()
    [name] = locks.names(store)
    noted = json.loads((store / "locks" / name).read_text().splitlines()[1])["rows"]
    rows = recording.end(signal.SIGTERM)
    assert recording.code == 0, recording.error
    left, ended = ([{key: row[key] for key in row if key not in WHEN} for row in of] for of in (noted, rows))
    assert left == ended and {row["unparsed"] for row in rows} == {None if backend == "ebpf" else 0}


def test_ctrl_c_before_the_first_packet(lab, store):
    recording = Recording(lab, store, lab.b).begun()
    rows = recording.end(signal.SIGINT)
    assert (recording.code, recording.error) == (130, "")
    assert {(row["direction"], row["packets"], row["complete"]) for row in rows} == {("in", 0, True), ("out", 0, True)}
    assert all("ended by SIGINT" in row["notes"] for row in rows)


@pytest.mark.parametrize(
    "arguments",
    [["--backend", "afpacket"], ["--threads", "2"], ["--backend", "libpcap"]],
    ids=["afpacket", "fanout", "libpcap"],
)
def test_packets_in_the_ring_at_ctrl_c_are_recorded(lab, sender, store, arguments):
    """The recorder is stopped while frames arrive, and is signalled to end before it can read them."""
    recording = Recording(lab, store, lab.b, "--direction", "in", *arguments).begun()
    recording.process.send_signal(signal.SIGSTOP)
    send(lab, sender, 20_000)
    recording.process.send_signal(signal.SIGINT)
    recording.process.send_signal(signal.SIGCONT)
    [row] = recording.end()
    assert recording.code == 130
    assert (row["packets"], row["dropped"]) == (20_000, 0)
    assert recording.query("SELECT sum(packets) FROM bins") == [(20_000,)]


@pytest.mark.parametrize(
    "arguments",
    [["--backend", "afpacket"], ["--threads", "2"], ["--backend", "libpcap"]],
    ids=["afpacket", "fanout", "libpcap"],
)
def test_a_recording_ends_while_frames_keep_arriving(lab, sender, store, arguments):
    recording = Recording(lab, store, lab.b, "--direction", "in", *arguments).begun()
    sending = subprocess.Popen(
        ["ip", "netns", "exec", lab.near, str(sender), lab.a, "4000000", "100000", "60"], stdout=subprocess.DEVNULL
    )
    try:
        time.sleep(0.5)
        [row] = recording.end(signal.SIGINT)
        assert sending.poll() is None
    finally:
        sending.kill()
        sending.wait()
    assert recording.code == 130 and row["packets"] > 0
    [(packets,)] = recording.query("SELECT sum(packets) FROM bins")
    assert packets == row["packets"]
