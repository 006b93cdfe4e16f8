"""`mburst record`: what it reports, what it refuses, and that no acknowledged row is lost."""

from __future__ import annotations

import argparse
import gzip
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import defaultdict
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from frames import START_NS, Frame, pcap, write_pcap
from mounts import tmpfs

from mburst.__main__ import main
from mburst.cli.inputs import inputs_of
from mburst.services.record import recorder
from mburst.services.record.rows import describe
from mburst.sql import StoreFolder


@pytest.fixture
def capture(tmp_path: Path) -> Path:
    frames = [Frame(START_NS + i * 10_000, i % 7, 60 + i % 1400, i % 3, outgoing=i % 9 == 0) for i in range(5000)]
    return write_pcap(tmp_path / "eth0.pcap", frames)


def total(store: Path, query: str) -> tuple:
    return StoreFolder.open(store).connect().execute(query).fetchone()


def test_packets_that_are_in_no_bin_are_stored_with_their_bytes(tmp_path):
    frames = [Frame(START_NS + i * 10_000, 1, 100) for i in range(5000)]
    late = [Frame(START_NS + i * 1000, 2, 300) for i in range(7)]  # 50 ms before the others
    path = write_pcap(tmp_path / "eth0.pcap", [*frames, *late])
    assert main(["record", str(path), "-o", str(tmp_path / "s")]) == 0
    assert total(tmp_path / "s", "SELECT late, late_bytes, packets, bytes FROM recordings") == (7, 2100, 5000, 500_000)


def test_json_has_a_row_of_recordings_for_each_direction(capture, tmp_path, capsys):
    store = tmp_path / "store"
    assert main(["record", str(capture), "-o", str(store), "--link", "1G", "--host", "h", "--rack", "r", "--json"]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert {row["direction"] for row in rows} == {"in", "out"}
    assert sum(row["packets"] for row in rows) == 5000
    for row in rows:
        assert (row["host"], row["rack"], row["interface"], row["link_bps"]) == ("h", "r", "eth0", 10**9)
        assert (row["bin_ns"], row["source_bin_ns"], row["complete"]) == (100_000, 1_000_000, True)
    columns = [row[0] for row in StoreFolder.open(store).connect().execute("DESCRIBE recordings").fetchall()]
    assert list(rows[0]) == columns


@pytest.mark.parametrize(
    ("at_ns", "line", "bursts"),
    [
        ([0] * 900, "900 packets, 900 kB", "1 burst in 100 µs, 100 % of the time"),
        (
            [at * 10_000 for at in range(900)],
            "900 packets, 900 kB in 8.99 ms, bins of 100 µs, 82 % of 1 Gb/s on average",
            "1 burst in 9 ms, 100 % of the time",
        ),
        (
            [begun + at * 10_000 for begun in (0, START_NS) for at in range(900)],
            "1,800 packets, 1.8 MB in 2 clock epochs, bins of 100 µs",
            "2 bursts in 18 ms, 100 % of the time",
        ),
    ],
    ids=["no stamps", "not set", "set"],
)
def test_a_clock_that_was_not_set(tmp_path, capsys, at_ns, line, bursts):
    """Stamps begin at 0 in 1970. A clock that is set later does not make the years in between recorded time."""
    file = write_pcap(tmp_path / "eth0.pcap", [Frame(ns, 1, 1000) for ns in at_ns])
    assert main(["record", str(file), "-o", str(tmp_path / "s"), "--link", "1G"]) == 0
    assert capsys.readouterr().out.splitlines()[0] == f"eth0 in: {line}"
    assert main(["bursts", str(tmp_path / "s")]) == 0
    assert capsys.readouterr().out.splitlines()[-1].startswith(f"{bursts};")


def test_a_step_of_the_clock_is_reported_once_for_both_directions(tmp_path, capsys):
    times = [begun + at * 10_000 for begun in (START_NS, START_NS - 3600 * 10**9) for at in range(200)]
    frames = [Frame(ns, 1, 1000, outgoing=at % 2 == 0) for at, ns in enumerate(times)]
    assert main(["record", str(write_pcap(tmp_path / "eth0.pcap", frames)), "-o", str(tmp_path / "s")]) == 0
    assert "note: 1 step of the clock: a new clock epoch begins at each\n" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("local", "packets", "doubt"),
    [
        ([], ["in", "out"], ""),
        (["192.0.2.1"], ["in", "out"], ""),
        (["02:00:00:00:ff:ff"], ["in", "out"], ""),
        (["192.0.2.77"], ["in"], "100 %"),
        (["02:00:00:00:ff:77"], ["in"], "100 %"),
    ],
)
def test_frames_that_do_not_concern_this_host_are_reported(tmp_path, capsys, local, packets, doubt):
    frames = [Frame(START_NS + at * 10_000, at % 7, 1000, outgoing=at % 2 == 0) for at in range(200)]
    given = [word for address in local for word in ("--local", address)]
    store = str(tmp_path / "s")
    assert main(["record", str(write_pcap(tmp_path / "eth0.pcap", frames)), "-o", store, *given]) == 0
    printed = capsys.readouterr().out
    assert [side for side in ("in", "out") if f"eth0 {side}: " in printed] == packets
    text = (
        f"{doubt} of the frames are neither from nor to an address given by --local, and count as incoming: "
        "give all addresses of this host"
    )
    assert (text in printed) == bool(doubt)


FOREIGN = "of the frames are neither from nor to the address assumed to be this host: override with --local"


@pytest.mark.parametrize(
    ("lanes", "excluded", "ethernet", "doubts"),
    [
        ([("eth0", 500, 0), ("eth0", 500, 1), ("eth1", 40, 39)], 0, 1040, ["eth1: 97.5 %"]),
        ([("eth0", 500, 0), ("eth0", 500, 1), ("eth1", 60, 60)], 0, 1060, ["eth1: 100 %"]),  # 5.75 % of all
        ([("eth0", 1000, 0), ("eth1", 1, 1)], 0, 1001, []),
        ([("eth0", 10, 0), ("eth1", 1, 1)], 0, 11, ["9.09 %"]),
        ([("eth0", 500, 50), ("eth1", 500, 150)], 0, 1000, ["20 %"]),
        ([("eth0", 1000, 80)], 1000, 2000, []),  # --direction in: 4 % of all
        ([("eth0", 1000, 0), ("eth1", 1000, 80)], 2000, 4000, []),
        ([("eth0", 1000, 0), ("eth1", 1000, 1000)], 2000, 4000, ["25 %"]),
        ([("eth0", 1000, 80)], 0, 1000, ["8 %"]),
        ([], 0, 0, []),
    ],
)
def test_interfaces_that_another_address_belongs_to_are_reported(lanes, excluded, ethernet, doubts):
    """The inferred address is that of the interface with nearly all frames; at the other, all seem to arrive."""
    recording: Any = SimpleNamespace(sources_above_ppb=0, local=[], interface=None, targets=["two.pcapng"])
    foreign = sum(lane[2] for lane in lanes)
    facts = {"foreign_packets": foreign, "ethernet_packets": ethernet, "excluded_packets": excluded}
    capture: Any = SimpleNamespace(facts=defaultdict(int, facts))
    sides: list[Any] = [
        defaultdict(int, interface=name, packets=packets, foreign_packets=foreign) for name, packets, foreign in lanes
    ]
    notes = [note for note in describe(recording, capture, sides) if "left out" not in note]
    assert notes == [f"{doubt} {FOREIGN}" for doubt in doubts]


def test_notes_on_one_of_several_interfaces_name_it():
    recording: Any = SimpleNamespace(sources_above_ppb=0, local=[], interface=None, targets=["two.pcapng"])
    capture: Any = SimpleNamespace(facts=defaultdict(int))
    lanes: list[Any] = [
        defaultdict(int, interface=f"eth{at}", index=at, direction="in", pause_frames=at + 1, cnp_packets=at)
        for at in (0, 1)
    ]
    stop = "to stop the other end of the link"
    assert describe(recording, capture, lanes) == [
        f"eth0 in: 1 pause frame {stop}",
        f"eth1 in: 2 pause frames {stop}",
        "eth1 in: 1 congestion notification of RoCEv2",
    ]
    assert describe(recording, capture, lanes[:1]) == [f"in: 1 pause frame {stop}"]


def test_steps_of_the_clocks_of_several_interfaces_add_up():
    """That of the first stepped once, as seen by both directions; that of the second twice."""
    recording: Any = SimpleNamespace(sources_above_ppb=0, local=[], interface="eth0")
    capture: Any = SimpleNamespace(facts=defaultdict(int))
    lanes: list[Any] = [
        defaultdict(int, index=index, direction=direction, clock_epochs=epochs)
        for index, direction, epochs in ((0, "in", 2), (0, "out", 2), (1, "in", 3), (1, "out", 1))
    ]
    assert describe(recording, capture, lanes) == ["3 steps of the clock: a new clock epoch begins at each"]


def test_one_direction_states_how_many_packets_were_left_out(capture, tmp_path, capsys):
    assert main(["record", str(capture), "-o", str(tmp_path / "s"), "--direction", "in"]) == 0
    assert "packets of the other direction left out (--direction)" in capsys.readouterr().out


def test_files_and_a_filter_are_distinguished(capture, tmp_path, capsys):
    later = write_pcap(tmp_path / "eth1.pcap", [Frame(START_NS + 10**9, 1, 100)])
    arguments = ["record", str(capture), str(later), "udp", "and", "src", "host", "10.0.0.1", "-o", str(tmp_path / "s")]
    assert main([*arguments, "--json"]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert {row["filter"] for row in rows} == {"udp and src host 10.0.0.1"}
    assert total(tmp_path / "s", "SELECT count(DISTINCT source), min(source) FROM sources") == (1, "10.0.0.1")


@pytest.mark.parametrize("option", ["-f", "--filter"])
def test_a_filter_as_an_option(capture, tmp_path, capsys, option):
    store = str(tmp_path / "s")
    assert main(["record", str(capture), option, "udp and src host 10.0.0.1", "-o", store, "--json"]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert {row["filter"] for row in rows} == {"udp and src host 10.0.0.1"}
    assert main(["record", str(capture), "tcp", option, "udp", "-o", store]) == 2
    assert "two filters: 'udp' and 'tcp' (join them with `and`)" in capsys.readouterr().err


@pytest.mark.parametrize("before", [[], ["{capture}"], ["-r", "{capture}"], ["-i", "lo"], ["lo"]])
@pytest.mark.parametrize(
    ("words", "wrong"),
    [
        (["mix.pcp"], "mix.pcp"),
        (["none/eth1.pcap.gz"], "none/eth1.pcap.gz"),
        (["{folder}/x.pcapng", "and", "y.pcap"], "{folder}/x.pcapng"),
        (["./mix"], "./mix"),
        (["tcp", "mix.cap"], "mix.cap"),
        (["host", "none/eth1"], "none/eth1"),
    ],
)
def test_a_mistyped_file_is_not_taken_for_a_filter(capture, tmp_path, capsys, before, words, wrong):
    fill = [word.format(capture=capture, folder=tmp_path) for word in [*before, *words]]
    if not before and words[0] in ("tcp", "host"):
        fill[0] = str(capture)
    assert main(["record", *fill, "-o", str(tmp_path / "s")]) == 1
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith(f"mburst: {wrong.format(folder=tmp_path)}: no such file (")
    assert not (tmp_path / "s").exists()


def test_the_similar_file_is_suggested(capture, tmp_path, capsys):
    wrong = [str(tmp_path / name) for name in ("eth0.pcp", "eth.pcap")]
    for words in ([wrong[0]], ["-r", wrong[0]], [wrong[1], "tcp"]):
        assert main(["record", *words, "-o", str(tmp_path / "s")]) == 1
        assert capsys.readouterr().err.endswith(f": no such file (there is {capture})\n")
    assert main(["record", str(capture), "tcp", str(capture), "-o", str(tmp_path / "s")]) == 1
    assert f"{capture}: a file where a filter is expected" in capsys.readouterr().err


def test_an_invalid_filter_has_the_message_of_libpcap(capture, tmp_path, capsys):
    assert main(["record", str(capture), "hst", "10.0.0.1", "-o", str(tmp_path / "s")]) == 1
    assert "filter 'hst 10.0.0.1' cannot be compiled" in capsys.readouterr().err


FILTERS = ["tcp port 80", "net 10.0.0.0/8", "src net 2001:db8::/32 and udp", "ip[6:2] & 0x1fff / 8 = 0", "ip[0]/4 = 17",
           "net 10.0.0.0/255.0.0.0", "not net 10/8", "host web.example.cap", "vlan and host 10.0.0.1"]  # fmt: skip


@pytest.mark.parametrize("text", FILTERS)
def test_no_filter_is_taken_for_a_file(text):
    for words in (text.split(), [text]):
        for given in ({"devices": ["lo"]}, {"inputs": ["lo", *words]}):
            options = argparse.Namespace(**{"inputs": words, "files": None, "devices": None, "filter": "",
                                            "backend": "auto", **given})  # fmt: skip
            assert inputs_of(options) == (["lo"], text)


def test_files_and_filters_are_given_as_for_tcpdump(capture, tmp_path, capsys):
    later = write_pcap(tmp_path / "eth1.pcap", [Frame(START_NS + 10**9, 1, 100)])
    words = ["udp", "and", "src", "host", "10.0.0.1"]
    for given in (["-r", str(capture), "-r", str(later), *words], ["-r", str(capture), str(later), *words],
                  ["-r", str(capture), "-r", str(later), "-f", " ".join(words)]):  # fmt: skip
        store = tmp_path / str(len(list(tmp_path.iterdir())))
        assert main(["record", "-o", str(store), *given, "--json"]) == 0
        rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
        assert {row["filter"] for row in rows} == {"udp and src host 10.0.0.1"}
        assert total(
            store, "SELECT count(DISTINCT source), max(ts_ns) >= ? FROM sources".replace("?", str(START_NS + 10**9))
        ) == (1, True)


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        ([], 2, "nothing to record (name capture files (-r FILE) or an interface (-i INTERFACE))"),
        (["-r", "lo"], 1, "lo: no such file (an interface is named with -i)"),
        (["-i", "{capture}"], 1, "{capture}: no such interface (a capture file is named with -r)"),
        (["-i", "mb-none0"], 1, "mb-none0: no such"),
        (["-i", "lo", "-r", "{capture}"], 2, "-r and -i exclude each other"),
        (["-i", "lo", "tcp", "-f", "udp"], 2, "two filters: 'udp' and 'tcp'"),
    ],
)
def test_errors_of_files_and_interfaces(capture, tmp_path, capsys, words, code, message):
    words = [word.format(capture=capture) for word in words]
    assert main(["record", *words, "-o", str(tmp_path / "s")]) == code
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith("mburst: ") and message.format(capture=capture) in line


def test_standard_input_and_compressed_files_give_the_same_bins(capture, tmp_path):
    packed = tmp_path / "eth0.pcap.gz"
    packed.write_bytes(gzip.compress(capture.read_bytes()))
    command = [sys.executable, "-m", "mburst", "record", "-", "-o", str(tmp_path / "pipe")]
    subprocess.run(command, input=capture.read_bytes(), check=True, capture_output=True)
    assert main(["record", str(packed), "-o", str(tmp_path / "packed")]) == 0
    assert main(["record", str(capture), "-o", str(tmp_path / "plain")]) == 0
    sums = "SELECT count(*), sum(bytes), sum(wire_bytes), sum(packets), sum(ts_ns // 1000) FROM bins"
    assert total(tmp_path / "pipe", sums) == total(tmp_path / "packed", sums) == total(tmp_path / "plain", sums)


def test_packets_before_a_cut_are_kept_and_the_cut_is_reported(capture, tmp_path, capsys):
    cut = tmp_path / "cut.pcap"
    cut.write_bytes(capture.read_bytes()[:100_000])
    assert main(["record", str(cut), "-o", str(tmp_path / "s"), "--json"]) == 0
    [row, *_] = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert "byte" in row["notes"] and row["complete"]
    assert total(tmp_path / "s", "SELECT sum(packets) FROM bins")[0] > 800


def test_packets_before_a_fault_are_kept_and_the_fault_is_one_line(capture, tmp_path, capsys):
    data = bytearray(capture.read_bytes())
    offset = 24
    for _ in range(1000):
        offset += 16 + int.from_bytes(data[offset + 8 : offset + 12], "little")
    data[offset + 8 : offset + 12] = b"\xff\xff\xff\x7f"
    bad = tmp_path / "bad.pcap"
    bad.write_bytes(data)
    assert main(["record", str(bad), "-o", str(tmp_path / "s")]) == 1
    [line] = capsys.readouterr().err.splitlines()
    assert str(offset) in line and "bad.pcap" in line
    assert total(tmp_path / "s", "SELECT sum(packets) FROM bins") == (1000,)
    assert "ended early" in total(tmp_path / "s", "SELECT notes FROM recordings LIMIT 1")[0]


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["/nonexistent.pcap", "-o", "{}/s"], 1),
        (["{}", "-o", "{}/s"], 1),
        (["{}/empty", "-o", "{}/s"], 1),
        (["{}/text", "-o", "{}/s"], 1),
        (["{}/good", "-o", "/proc/nowhere"], 1),
        (["{}/good", "-o", "{}/text"], 1),
        (["{}/good", "-o", "{}/s", "--bin", "10 parsecs"], 2),
        (["{}/good", "-o", "{}/s", "--bin", "1us"], 2),
        (["{}/good", "-o", "{}/s", "--bin", "10"], 2),
        (["{}/good", "-o", "{}/s", "--link", "fast"], 2),
        (["{}/good", "-o", "{}/s", "--link", "0G"], 2),
        (["{}/good", "-o", "{}/s", "--local", "here"], 2),
        (["{}/good", "-o", "{}/s", "--max-sources", "0"], 2),
        (["{}/good", "-o", "{}/s", "--split-merged"], 2),
        (["{}/good", "-o", "{}/s", "--reorder-window", "1h"], 2),
        (["{}/good", "-o", "{}/s", "--no-such-flag"], 2),
        (["{}/good", "no such filter", "-o", "{}/s"], 1),
        (["{}/good"], 2),
    ],
)
def test_every_refusal_is_one_line(tmp_path, arguments, code):
    (tmp_path / "empty").touch()
    (tmp_path / "text").write_text("hello, this is no capture\n")
    write_pcap(tmp_path / "good", [Frame(START_NS, 1, 60)])
    command = [sys.executable, "-m", "mburst", "record", *(text.format(tmp_path) for text in arguments)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == code, done.stderr
    lines = done.stderr.splitlines()
    assert "Traceback" not in done.stderr and lines[-1].startswith("mburst")
    if code == 1:
        assert len(lines) == 1


def test_a_capture_without_packets_is_reported(tmp_path, capsys):
    (tmp_path / "none.pcap").write_bytes(pcap([]))
    assert main(["record", str(tmp_path / "none.pcap"), "-o", str(tmp_path / "s")]) == 0
    assert capsys.readouterr().out == "no packets: nothing is recorded\n"


def test_a_file_that_is_named_twice_is_refused(capture, tmp_path, capsys):
    """Its packets would count twice. Two interfaces with the same name are refused, too."""
    (tmp_path / "link.pcap").symlink_to(capture)
    for again in (capture, tmp_path / "link.pcap", f"{tmp_path}/./eth0.pcap"):
        for words in ([str(capture), str(again)], ["-r", str(capture), "-r", str(again)]):
            assert main(["record", *words, "-o", str(tmp_path / "s")]) == 2
            assert capsys.readouterr().err == f"mburst: {again}: this file is named twice (name it once)\n"
    assert not (tmp_path / "s").exists()


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (
            ["--reorder-window", "10h"],
            2,
            "--reorder-window: more than 1048576 bins are open at a time: make it shorter",
        ),
        (["-o", "FILE"], 1, "eth0.pcap: a file, and not an mburst store (name a new folder)"),
    ],
)
def test_impossible_options_are_named(capture, tmp_path, capsys, words, code, message):
    given = [str(capture) if word == "FILE" else word for word in words]
    assert main(["record", str(capture), "-o", str(tmp_path / "s"), *given]) == code
    assert message in capsys.readouterr().err and not (tmp_path / "s").exists()


def _fed(store: Path) -> subprocess.Popen[bytes]:
    """Starts a recording of standard input, which the caller writes."""
    command = [sys.executable, "-m", "mburst", "record", "-", "-o", str(store), "--bin", "10us", "--json"]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def _feed(process: subprocess.Popen[bytes], frames: int) -> bytes:
    data = pcap(Frame(START_NS + i * 20_000, i % 50, 100) for i in range(frames))
    assert process.stdin
    process.stdin.write(data)
    process.stdin.flush()
    return data


def _wait_for_bins(store: Path, deadline_s: float = 60) -> int:
    end = time.monotonic() + deadline_s
    while time.monotonic() < end:
        if (store / "mburst.json").exists() and not StoreFolder.open(store).is_empty("bins"):
            return total(store, "SELECT count(*) FROM bins")[0]
        time.sleep(0.05)
    raise AssertionError("no bins were stored")


@pytest.mark.parametrize("attempt", range(3))
def test_a_killed_recording_loses_no_acknowledged_row_and_doubles_none(tmp_path, attempt):
    store = tmp_path / "store"
    process = _fed(store)
    _feed(process, 150_000)
    seen = _wait_for_bins(store)
    time.sleep(random.Random(attempt).random() / 5)
    process.kill()
    process.communicate()
    for _ in range(2):
        count, distinct, packets = total(store, "SELECT count(*), count(DISTINCT ts_ns), sum(packets) FROM bins")
        assert count == distinct == packets >= seen
        assert total(store, "SELECT count(*), bool_or(complete) FROM recordings") == (1, False)
        StoreFolder.open(store).seal()
    bytes_, members = total(store, "SELECT sum(bytes), sum(packets) FROM sources")
    assert bytes_ == 100 * members


def test_an_interrupted_recording_keeps_its_rows(tmp_path):
    store = tmp_path / "store"
    process = _fed(store)
    _feed(process, 100_000)
    _wait_for_bins(store)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert errors.decode().splitlines() == ["mburst: interrupted"]
    notes, ended, complete = total(store, "SELECT notes, ended, complete FROM recordings")
    assert "interrupted" in notes and (ended, complete) == ("interrupted", False)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_completes_the_current_step(tmp_path, monkeypatch, capsys, number):
    """Whatever the recorder does when the signal arrives: here it is about to store rows."""
    append = recorder.Recorder._append

    def interrupted(self, turn):
        signal.raise_signal(number)
        return append(self, turn)

    monkeypatch.setattr(recorder.Recorder, "_append", interrupted)
    write_pcap(tmp_path / "cache.pcap", [Frame(START_NS + i * 20_000, i % 50, 100) for i in range(100)])
    before = signal.getsignal(number)
    assert main(["record", str(tmp_path / "cache.pcap"), "-o", str(tmp_path / "s")]) == 130
    assert signal.getsignal(number) is before
    assert capsys.readouterr().err.splitlines() == [
        "mburst: interrupted (recorded before that: 100 packets; the same command records all)"
    ]
    notes, complete, packets = total(tmp_path / "s", "SELECT notes, complete, packets FROM recordings")
    assert (notes.splitlines()[-1], complete, packets) == ("the recording was interrupted", False, 100)
    assert total(tmp_path / "s", "SELECT sum(packets) FROM bins") == (100,)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to mount a small file system")
def test_a_full_disk_is_one_line(tmp_path, capture):
    with tmpfs(tmp_path / "disk", "size=96k") as disk:
        command = [sys.executable, "-m", "mburst", "record", str(capture), "-o", str(disk / "s"), "--bin", "10us"]
        done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 1
    [line] = done.stderr.splitlines()
    assert "No space left" in line
