"""Bins counted in the kernel: what the recorder leaves behind, its rights, its refusals, and clocks that are set."""

from __future__ import annotations

import ctypes
import json
import os
import select
import signal
import socket
import struct
import subprocess
import sys
import time
from contextlib import contextmanager
from dataclasses import replace

import livelab
import pytest
from bounded import next_line
from building import library
from kernel_bins import MS, TCX_EGRESS, TCX_INGRESS, Reading, attached, both, capabilities, many_senders, pair, why_not

from mburst.capture import Capture
from mburst.errors import MburstError

__all__ = ["pair"]
STEPPED_BIT = 256


def test_several_recorders_count_at_once_and_leave_nothing_behind(pair):
    first = Reading(pair, "ebpf").start()
    second = Reading(pair, "ebpf", directions="in").start()
    assert (attached(pair, TCX_INGRESS), attached(pair, TCX_EGRESS)) == (2, 1)
    many_senders(pair, 500)
    first.stop()
    assert (attached(pair, TCX_INGRESS), attached(pair, TCX_EGRESS)) == (1, 0)
    many_senders(pair, 500)
    second.stop()
    assert first.lanes["in"]["packets"] == 500 and second.lanes["in"]["packets"] == 1000
    assert (attached(pair, TCX_INGRESS), attached(pair, TCX_EGRESS)) == (0, 0)


# Reports when it has read rows and when it has seen the step; at the end of its input, prints all that it read.
STEPPED = """
import json, sys
sys.path[:0] = sys.argv[2:]
import threading
import pyarrow as pa
from mburst.capture import Capture
capture = Capture([sys.argv[1]], backend="ebpf", directions="in", bin_ns=300_000_000, source_bin_ns=300_000_000)
threading.Thread(target=lambda: (sys.stdin.read(), capture.stop())).start()
bins, senders, said = [], [], 0
print("begun", flush=True)
while (rows := capture.read()) is not None:
    bins += pa.table(rows[0]).to_pylist()
    senders += pa.table(rows[1]).to_pylist()
    if bins and said < 1 + bins[-1]["clock_epoch"]:
        said += 1
        print("seen", flush=True)
print(json.dumps([bins, senders, capture.losses()]))
"""


@pytest.mark.parametrize("step_s", [7, -7])
def test_a_clock_that_is_set_begins_an_epoch(pair, tmp_path, step_s):
    """The step is no multiple of the bin width: bins still begin at multiples of it in the new time, and no packet is
    lost."""
    offset = tmp_path / "offset"
    offset.write_text("0")
    preload = {"LD_PRELOAD": str(library("tests/c/stepped_clock.c")), "CLOCK_OFFSET": str(offset)}
    command = ["ip", "netns", "exec", pair.far, sys.executable, "-c", STEPPED, pair.b, *sys.path]
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env={**os.environ, **preload}
    )
    assert next_line(process) == "begun\n"
    rounds: list[int] = [0]
    for seconds in (0, step_s):
        offset.write_text(str(seconds))
        while not select.select([process.stdout], [], [], 0.05)[0]:
            many_senders(pair, 50)
            rounds[-1] += 1
            assert rounds[-1] < 2000
        assert next_line(process) == "seen\n"
        rounds.append(0)
    for rounds[-1] in range(1, 21):
        many_senders(pair, 50)
    out, _ = process.communicate("")
    bins, senders, losses = json.loads(out)
    width, step = 300 * MS, step_s * 1000 * MS
    assert not losses and all(row["ts_ns"] % width == 0 for row in bins + senders)
    assert sum(row["packets"] for row in bins) == sum(row["packets"] for row in senders) == 50 * sum(rounds)
    before, after = ([row for row in bins if row["clock_epoch"] == epoch] for epoch in (0, 1))
    assert len(before) + len(after) == len(bins)
    assert before[-1]["quality"] & STEPPED_BIT and after[0]["quality"] & STEPPED_BIT
    assert 0 <= after[0]["ts_ns"] - before[-1]["ts_ns"] - step <= 2 * width
    # The step is seen when the reader runs next; the epoch begins with the following bin.
    assert 50 * rounds[0] <= sum(row["packets"] for row in before) <= 50 * sum(rounds[:2])


RECORD = [sys.executable, "-m", "mburst", "record", "--backend", "ebpf", "--json"]


def begin(lab, *arguments, wrapper=()):
    command = ["ip", "netns", "exec", lab.far, *wrapper, *RECORD, "-i", lab.b, *arguments]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    for _ in range(600):
        if attached(lab, TCX_INGRESS) and attached(lab, TCX_EGRESS):
            return process
        assert process.poll() is None, process.communicate()
        time.sleep(0.02)
    raise AssertionError("it does not attach")


def test_a_killed_recorder_without_privileges_leaves_no_program(pair, tmp_path):
    """It drops its rights once the programs are attached, and the programs end with the process."""
    process = begin(pair, "-o", str(tmp_path / "store"), "--duration", "60s")
    for _ in range(200):
        if not capabilities(process)["CapPrm:"]:
            break
        time.sleep(0.02)
    assert not capabilities(process)["CapPrm:"]
    process.kill()
    process.communicate()
    for _ in range(100):
        if not attached(pair, TCX_INGRESS) + attached(pair, TCX_EGRESS):
            return
        time.sleep(0.02)
    raise AssertionError("programs are left on the interface")


def test_three_capabilities_are_enough(pair, tmp_path):
    needed = "+bpf,+perfmon,+net_admin"
    wrapper = ["setpriv", f"--bounding-set=-all,{needed}", f"--inh-caps=-all,{needed}"]
    process = begin(pair, "-o", str(tmp_path), "--no-promiscuous", "--user", "root", wrapper=wrapper)
    many_senders(pair, 300)
    time.sleep(0.3)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=30)
    assert process.returncode == 130, err
    [recorded] = [row for row in map(json.loads, out.splitlines()) if row["direction"] == "in"]
    assert recorded["packets"] == 300


def test_unsupported_options_are_refused(pair):
    for options, words in (
        ({"filter": "udp"}, "no --filter"),
        ({"stamps": "hw"}, "no hardware stamps"),
        ({"bin_ns": 100}, "1 µs to 4 s"),
        ({"bin_ns": 300_000}, "multiple"),
    ):
        with pytest.raises(MburstError, match=words):
            Reading(pair, "ebpf", **options)


@pytest.mark.parametrize(
    "options", [{"filter": "udp"}, {"stamps": "sw", "threads": 2}, {"snaplen": 200}, {"ring_bytes": 1 << 22}]
)
def test_auto_counts_in_the_kernel_unless_an_option_needs_frames(pair, options):
    for given, backend in (({}, "ebpf"), (options, "afpacket")):
        reading = Reading(pair, None, **given)
        notice = reading.capture.facts["notice"]
        assert ("counted in the kernel" in notice) == (backend == "ebpf")
        assert ("--backend afpacket was taken" in notice) == (backend == "afpacket")
        reading.stop()
        assert reading.facts["backend"] == backend


def test_several_interfaces_as_one_need_frames(pair):
    with pair.inside(pair.far):
        capture = Capture([pair.b, "lo"])
        capture.close()
        with pytest.raises(MburstError, match="by which several captures are merged"):
            Capture([pair.b, "lo"], backend="ebpf")


TC_ACT_OK, TC_ACT_SHOT = 0, 2
BPF_PROG_QUERY, BPF_LINK_GET_FD_BY_ID, BPF_LINK_DETACH = 16, 30, 34


def bpf(command, layout, *values):
    attributes = ctypes.create_string_buffer(128)
    struct.pack_into(layout, attributes, 0, *values)
    made = ctypes.CDLL(None, use_errno=True).syscall(321, command, attributes, 128)
    assert made >= 0, os.strerror(ctypes.get_errno())
    return made


@contextmanager
def another_program(lab, verdict, *places):
    """A program that returns VERDICT for each frame."""
    code = ctypes.create_string_buffer(struct.pack("=BBHi", 0xB7, 0, 0, verdict) + struct.pack("=BBHi", 0x95, 0, 0, 0))
    licence = ctypes.create_string_buffer(b"GPL")
    opened = [bpf(5, "=IIQQ", 3, 2, ctypes.addressof(code), ctypes.addressof(licence))]
    try:
        with lab.inside(lab.far):
            index = socket.if_nametoindex(lab.b)
            opened += [bpf(28, "=IIII", opened[0], index, place, 0) for place in places]
        yield
        assert [attached(lab, place) for place in places] == [1] * len(places)
    finally:
        for one in opened:
            os.close(one)


def test_frames_that_another_program_drops_are_counted(pair):
    """Packet sockets count them, too. The other program stays attached."""
    with another_program(pair, TC_ACT_SHOT, TCX_INGRESS):
        with both(pair) as (ebpf, afpacket):
            many_senders(pair, 100)
        assert ebpf.sums("in") == afpacket.sums("in") and ebpf.sums("in")["packets"] == 100


def test_what_another_program_accepts_is_counted(pair):
    """Those behind it do not run: TC_ACT_OK is the last word."""
    with another_program(pair, TC_ACT_OK, TCX_INGRESS, TCX_EGRESS):
        with both(pair) as (ebpf, afpacket):
            many_senders(pair, 100)
            many_senders(replace(pair, near=pair.far, a=pair.b), 50)
        for direction, packets in (("in", 100), ("out", 50)):
            assert ebpf.sums(direction) == afpacket.sums(direction)
            assert ebpf.sums(direction)["packets"] == packets


@pytest.mark.parametrize("place", [TCX_INGRESS, TCX_EGRESS])
def test_a_program_that_another_process_takes_away_ends_it(pair, place):
    """It would count nothing from then on."""
    reading = Reading(pair, "ebpf").start()
    many_senders(pair, 100)
    attributes, programs, links = ctypes.create_string_buffer(128), (ctypes.c_uint32 * 1)(), (ctypes.c_uint32 * 1)()
    to = ctypes.addressof(programs), 1, 0, 0, ctypes.addressof(links)
    with pair.inside(pair.far):
        index = socket.if_nametoindex(pair.b)
        struct.pack_into("=IIIIQIIQQ", attributes, 0, index, place, 0, 0, *to)
        assert not ctypes.CDLL(None).syscall(321, BPF_PROG_QUERY, attributes, 64)
    link = bpf(BPF_LINK_GET_FD_BY_ID, "=I", links[0])
    bpf(BPF_LINK_DETACH, "=I", link)
    os.close(link)
    reading.thread.join(30)
    assert "another process has taken the program that counts off the interface" in reading.error
    reading.stop()
    assert reading.lanes["in"]["packets"] == 100
    assert attached(pair, TCX_INGRESS) == attached(pair, TCX_EGRESS) == 0


def test_a_side_that_counts_is_not_asked_about(pair, tmp_path):
    """The question waits for whoever changes any interface. Here its answer is always that the program is gone."""
    preload = {"LD_PRELOAD": str(library("tests/c/lesser_kernel.c")), "LACKS": "places"}
    command = ["ip", "netns", "exec", pair.far, *RECORD, "-i", pair.b, "-o", str(tmp_path / "store"), "--direction=in"]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ, **preload}
    )
    until = time.monotonic() + 60
    while not list(tmp_path.rglob("clock/**/*.log")) or process.poll() is not None:
        many_senders(pair, 5)
        assert time.monotonic() < until and process.poll() is None, process.communicate()
    for _ in range(150):
        many_senders(pair, 5)
        time.sleep(0.02)
    assert process.poll() is None, process.communicate()
    _, err = process.communicate(timeout=60)
    assert process.returncode == 1 and "another process has taken the program" in err


def test_a_time_namespace_is_refused(pair, tmp_path):
    """CLOCK_MONOTONIC of the namespace is not that of the program, so bins would have wrong times."""
    wrapper = ["unshare", "--time", "--fork", "--monotonic", "1000", "ip", "netns", "exec", pair.far]
    command = [*wrapper, *RECORD, "-i", pair.b, "-o", "store", "--duration", "1s"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 1 and "time namespace" in done.stderr, done


TRIED = """
import json, sys
from mburst.capture import Capture, backends
from mburst.errors import MburstError
found = {}
for hook in ("tc", "xdp"):
    try:
        Capture([sys.argv[1]], backend="ebpf", hook=hook).close()
        found[hook] = ""
    except MburstError as error:
        found[hook] = str(error)
[state] = [state for state in backends(sys.argv[1]) if state["name"] == "ebpf"]
found["check"] = state["reason"]
auto = Capture([sys.argv[1]])
found["auto"] = [auto.facts["backend"], auto.facts["notice"]]
auto.close()
print(json.dumps(found))
"""
NO_TCX = "this kernel has no tcx (Linux 6.6, CONFIG_NET_XGRESS): --backend ebpf counts at clsact all the same"
NO_HOOK = "attaching the program that counts to clsact"
NO_LOAD = "does not load the program that counts"
NO_RIGHT = "counting in the kernel is not allowed: run as root, or with"


@pytest.mark.parametrize(
    ("lacking", "tc", "xdp", "check"),
    [
        ("tcx", "", "", NO_TCX),
        ("hooks", NO_HOOK, NO_HOOK, NO_TCX),
        ("xdp", "", "its driver has no XDP: use --hook tc", ""),
        ("mmap", NO_LOAD, NO_LOAD, NO_LOAD),
        ("load", NO_LOAD, NO_LOAD, NO_LOAD),
        ("right", NO_RIGHT, NO_RIGHT, NO_RIGHT),
        ("memory", "", "", ""),
    ],
)
def test_the_missing_feature_of_a_kernel_is_named_and_nothing_stays(pair, lacking, tc, xdp, check):
    """`auto` still records, by packet sockets, and states why."""
    preload = {"LD_PRELOAD": str(library("tests/c/lesser_kernel.c")), "LACKS": lacking}
    command = ["ip", "netns", "exec", pair.far, sys.executable, "-c", TRIED, pair.b]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **preload}, check=True)
    found = json.loads(done.stdout)
    backend, notice = found.pop("auto")
    instead = {"memory": "counting in the kernel would take", "tcx": NO_TCX, "hooks": NO_TCX}.get(lacking, tc)
    assert backend == ("afpacket" if instead else "ebpf")
    assert (f"--backend afpacket was taken: {pair.b}: " in notice) == bool(instead)
    assert instead in notice
    for name, reason in (("tc", tc), ("xdp", xdp), ("check", check)):
        assert (reason in found[name]) if reason else not found[name], found
    assert (attached(pair, TCX_INGRESS), attached(pair, TCX_EGRESS)) == (0, 0)
    assert "xdp" not in livelab.sh(f"ip -n {pair.far} link show {pair.b}")


def test_an_interface_that_goes_down_ends_the_recording():
    if os.geteuid() != 0 or why_not():
        pytest.skip("needs root, and a kernel that counts")
    with livelab.make_lab() as lab:
        reading = Reading(lab, "ebpf").start()
        many_senders(lab, 100)
        livelab.sh(f"ip -n {lab.far} link set {lab.b} down")
        reading.thread.join(10)
        assert "down" in reading.error
        reading.stop()
        assert reading.lanes["in"]["packets"] == 100
