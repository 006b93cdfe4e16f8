"""`--pin`: the kernel counts on when the recorder dies, and the next recorder reads on from there without losing a
packet."""

from __future__ import annotations

import json
import mmap
import os
import random
import signal
import struct
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import livelab
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from building import library
from kernel_bins import TCX_EGRESS, TCX_INGRESS, MergedSender, many_senders, one_processor
from pinlab import BPF_XDP, MBURST, RECORD, PinHost, end, kill, one_host
from privilegelib import STRANGER, for_all, status
from waiting import wait_for

from mburst.api.recording import recording_of
from mburst.errors import UsageError
from mburst.sql import StoreFolder, segments


def stored(store) -> int:
    """Returns the packets of direction in that are in the bins of STORE so far."""
    if not list(store.rglob("bins/**/*.*")):
        return 0
    found = segments.snapshot(store, "bins", segments.FileSelection())
    parts = [*(log.rows for log in found.logs), *(pq.ParquetFile(file.path).read() for file in found.files)]
    return sum(pc.sum(rows.filter(pc.field("direction") == "in")["packets"]).as_py() or 0 for rows in parts)


def rows_of(store, query: str) -> list[tuple]:
    return StoreFolder.open(store).connect().execute(query).fetchall()


@pytest.fixture
def host() -> Iterator[PinHost]:
    with one_processor(), one_host() as made:
        yield made


def test_a_recorder_reads_on_after_one_was_killed(host, tmp_path):
    """The program stays the same, and each packet is counted once, in one of the two recordings."""
    store = tmp_path / "first"
    first = host.record(store)
    programs = host.programs(), host.programs(TCX_EGRESS)
    many_senders(host.lab, 300)
    wait_for(lambda: stored(store) == 300)
    kill(first)
    assert (host.programs(), host.programs(TCX_EGRESS)) == programs and len(host.pins()) == 8
    many_senders(host.lab, 200)
    second = host.record(tmp_path / "second")
    assert (host.programs(), host.programs(TCX_EGRESS)) == programs
    many_senders(host.lab, 50)
    wait_for(lambda: stored(tmp_path / "second") == 250)
    row = end(second)
    assert (row["packets"], row["dropped"]) == (250, 0) and "read on from where the recorder before" in row["notes"]
    assert rows_of(tmp_path / "second", "SELECT sum(packets)::INT FROM sources WHERE direction = 'in'") == [(250,)]
    assert (host.programs(), host.programs(TCX_EGRESS), host.pins()) == ([], [], [])


def test_merged_frames_are_split_by_the_recorder_that_has_their_bin(host, tmp_path):
    """40,000 bytes take 300 µs at 1 Gb/s. This also applies to frames that arrive between the recorders."""
    options = ("--split-merged", "--link", "1G", "--bin", "100us")
    first = host.record(tmp_path / "first", *options)
    sender, sent = MergedSender(host.lab, host.lab.near, host.lab.a), Counter()
    for name, count in (("first", 20), ("second", 30)):
        for _ in range(count):
            sent[name] += sender.send(40_000)[1]
            time.sleep(0.01)
        if name == "first":
            wait_for(lambda: stored(tmp_path / "first") == 20)
            kill(first)
    second = host.record(tmp_path / "second", *options)
    wait_for(lambda: stored(tmp_path / "second") == 30)
    end(second)
    sender.socket.close()
    for name, total in sent.items():
        wire = [row[0] for row in rows_of(tmp_path / name, "SELECT wire_bytes FROM bins WHERE direction = 'in'")]
        assert sum(wire) == total and all(0 <= one <= 12_501 for one in wire)


def test_bins_that_were_overwritten_meanwhile_are_a_counted_gap(host, tmp_path):
    store = tmp_path / "store"
    narrow = ("--bin", "10us")
    kill(host.record(store, *narrow))
    many_senders(host.lab, 500)
    time.sleep(2)  # bins of 10 µs are kept for 1.3 s
    many_senders(host.lab, 7)
    second = host.record(tmp_path / "second", *narrow)
    many_senders(host.lab, 20)
    wait_for(lambda: stored(tmp_path / "second") == 27)
    row = end(second)
    assert (row["packets"], row["dropped"]) == (27, 500)
    assert rows_of(tmp_path / "second", "SELECT reason, packets::INT FROM gaps") == [("dropped", 500)]
    assert rows_of(tmp_path / "second", "SELECT sum(packets)::INT FROM sources") == [(27,)]


def test_a_killed_recorder_and_the_next_use_one_store(host, tmp_path):
    """The gap between both ends where the second recording begins: when the first recorder read last."""
    store = tmp_path / "store"
    first = host.record(store)
    many_senders(host.lab, 300)
    wait_for(lambda: stored(store) == 300)
    kill(first)
    many_senders(host.lab, 200)
    second = host.begin(store, "--pin")
    wait_for(lambda: stored(store) == 500)
    assert end(second)["packets"] == 200
    runs = rows_of(store, "SELECT packets::INT, ended, begun_ns, start_ns FROM recordings WHERE direction = 'in' "
                   "ORDER BY begun_ns")  # fmt: skip
    assert [run[:2] for run in runs] == [(300, "killed"), (200, "stopped")]
    [(gap_from, gap_until)] = rows_of(store, "SELECT start_ns, end_ns FROM gaps WHERE direction = 'in'")
    assert gap_from <= gap_until == runs[1][2] <= runs[1][3]
    assert rows_of(store, "SELECT count(*) FROM bins GROUP BY direction, ts_ns HAVING count(*) > 1") == []


def test_sigterm_leaves_the_program_and_the_next_recorder_misses_nothing(host, tmp_path):
    """Packets arrive all the time."""
    sent, store = Counter[str](), tmp_path / "store"
    process = host.record(store)
    programs = host.programs()
    for _ in range(2):
        process.send_signal(signal.SIGTERM)

        def has_ended(process: subprocess.Popen[str] = process) -> bool:
            many_senders(host.lab, 20)
            sent["all"] += 20
            return process.poll() is not None

        wait_for(has_ended, "the end of the recorder")
        out, err = process.communicate()
        assert process.returncode == 0 and host.programs() == programs, err
        assert "the kernel counts on (--pin), for the next recorder" in out
        process = host.begin(store, "--pin")
        many_senders(host.lab, 100)
        sent["all"] += 100
        wait_for(lambda: stored(store) == sent["all"])
    assert end(process)["dropped"] == 0 and host.pins() == host.programs() == []
    recorded = rows_of(store, "SELECT count(*), sum(packets)::INT FROM recordings WHERE direction = 'in'")
    assert recorded == [(3, sent["all"])]
    assert rows_of(store, "SELECT count(*) FROM gaps") == [(0,)]


@pytest.mark.parametrize(
    "options",
    [
        ["--bin", "1ms"],
        ["--source-bin", "2ms"],
        ["--direction", "in"],
        ["--hook", "xdp"],
        ["--inner-ip"],
        ["--split-merged", "--link", "1G"],
    ],
)
def test_other_settings_start_a_new_program(host, tmp_path, options):
    kill(host.record(tmp_path / "first"))
    programs = host.programs()
    many_senders(host.lab, 300)
    second = host.record(tmp_path / "second", *options)
    place = BPF_XDP if "xdp" in options else TCX_INGRESS
    assert len(host.programs(place)) == 1 and host.programs(place) != programs
    many_senders(host.lab, 40)
    wait_for(lambda: stored(tmp_path / "second") == 40)
    row = end(second)
    assert (row["packets"], row["dropped"]) == (40, 0) and "counted with other settings" in row["notes"]
    assert host.programs() == host.programs(TCX_EGRESS) == host.programs(BPF_XDP) == host.pins() == []


@pytest.mark.parametrize("at", [0, 16, 80], ids=["while it set the clock", "while it pinned", "behind others"])
def test_inconsistent_pinned_state_starts_a_new_program(host, tmp_path, at):
    """In struct mb_ebpf_variables, the phase does not match the progress, the settings name no program, or they do not
    say that it is before other programs: an earlier mburst attached it behind them."""
    kill(host.record(tmp_path / "first"))
    programs = host.programs()
    [variables] = [path for path in host.pins() if path.endswith("/variables")]
    found = host.object(variables)
    with mmap.mmap(found, mmap.PAGESIZE) as memory:
        memory[at : at + 8] = struct.pack("=Q", struct.unpack_from("=Q", memory, at)[0] + 50_000 if at == 0 else 0)
    os.close(found)
    many_senders(host.lab, 300)
    second = host.record(tmp_path / "second")
    assert len(host.programs()) == 1 and host.programs() != programs
    many_senders(host.lab, 40)
    wait_for(lambda: stored(tmp_path / "second") == 40)
    row = end(second)
    assert (row["packets"], row["dropped"]) == (40, 0) and "counting restarts" in row["notes"]


def test_a_bin_that_a_processor_is_beginning_hides_none_before_it(host, tmp_path):
    """The processor was stopped in between: struct mb_ebpf_cursor has the number of the bin, but its slot does not."""
    kill(host.record(tmp_path / "first"))
    many_senders(host.lab, 30)
    [cursors] = [path for path in host.pins() if path.endswith("/cursors")]
    found = host.object(cursors)
    with mmap.mmap(found, mmap.PAGESIZE) as memory:
        for at in range(0, mmap.PAGESIZE, 2 * 128):  # what arrives
            [newest] = struct.unpack_from("=Q", memory, at)
            if newest:
                memory[at : at + 8], memory[at + 24 : at + 32] = struct.pack("=Q", newest + 1), struct.pack("=Q", 30)
    os.close(found)
    second = host.record(tmp_path / "second")
    many_senders(host.lab, 40)
    wait_for(lambda: stored(tmp_path / "second") >= 40)
    row = end(second)
    assert (row["packets"], row["dropped"], row["late"]) == (70, 0, 0)


def test_a_recorder_reads_on_in_the_driver(host, tmp_path):
    kill(host.record(tmp_path / "first", "--hook", "xdp"))
    programs = host.programs(BPF_XDP)
    many_senders(host.lab, 300)
    second = host.record(tmp_path / "second", "--hook", "xdp")
    assert host.programs(BPF_XDP) == programs and len(programs) == 1
    wait_for(lambda: stored(tmp_path / "second") == 300)
    end(second)
    assert host.programs(BPF_XDP) == host.pins() == []


def test_other_settings_start_a_new_program_in_the_driver(host, tmp_path):
    """The hook takes one program, so the previous one must be detached first."""
    kill(host.record(tmp_path / "first", "--hook", "xdp"))
    programs = host.programs(BPF_XDP)
    second = host.record(tmp_path / "second", "--hook", "xdp", "--bin", "1ms")
    assert len(programs) == len(host.programs(BPF_XDP)) == 1 and host.programs(BPF_XDP) != programs
    end(second)
    assert host.programs(BPF_XDP) == host.programs(TCX_EGRESS) == host.pins() == []


def test_two_recorders_at_once_are_refused(host, tmp_path):
    first = host.record(tmp_path / "first")
    out, err = host.begin(tmp_path / "second", "--pin").communicate(timeout=60)
    assert err.count("\n") == 1 and "another recorder counts with --pin: end it first" in err, (out, err)
    many_senders(host.lab, 30)
    wait_for(lambda: stored(tmp_path / "first") == 30)
    assert end(first)["packets"] == 30


def test_a_recorder_that_becomes_the_owner_of_the_store_removes_its_program(host):
    """It has no rights any more at that time."""
    with tempfile.TemporaryDirectory() as name:
        home = Path(name)
        os.chown(home, STRANGER, STRANGER)
        kill(host.record(home / "first", user=None))
        many_senders(host.lab, 60)
        second = host.record(home / "second", user=None)
        wait_for(lambda: status(second.pid)["Uid"].split() == [str(STRANGER)] * 4)
        wait_for(lambda: stored(home / "second") == 60)
        assert end(second)["packets"] == 60
    assert host.pins() == host.programs() == []


def test_another_user_pins_only_where_it_may_write(host):
    """A service with capabilities runs as that user from the start. Its empty folder stays."""
    needed = "+bpf,+perfmon,+net_admin,+net_raw"
    user = ["setpriv", f"--reuid={STRANGER}", f"--regid={STRANGER}", "--clear-groups"]
    user += [f"--bounding-set=-all,{needed}", f"--inh-caps=-all,{needed}", f"--ambient-caps=-all,{needed}"]
    with tempfile.TemporaryDirectory() as name:
        home = Path(name)
        os.chown(home, STRANGER, STRANGER)
        words = for_all([*user, *RECORD, "-i", host.lab.b, "-o", str(home / "refused"), "--pin"])
        done = subprocess.run(host.command(*words), capture_output=True, text=True, cwd=home, check=False)
        assert done.returncode == 1 and done.stderr.count("\n") == 1, done
        assert "--pin: this process may not write in /sys/fs/bpf" in done.stderr
        host.sh("chmod", "o+x", "/sys/fs/bpf")
        host.sh("mkdir", "/sys/fs/bpf/mburst")
        host.sh("chown", str(STRANGER), "/sys/fs/bpf/mburst")
        kill(host.record(home / "first", user=None, wrapper=user))
        many_senders(host.lab, 60)
        second = host.record(home / "second", user=None, wrapper=user)
        wait_for(lambda: stored(home / "second") == 60)
        assert end(second)["packets"] == 60
    assert host.pins() == host.programs() == [] and host.sh("ls", "/sys/fs/bpf/mburst") == ""


def test_nothing_stays_after_the_duration(host, tmp_path):
    process = host.begin(tmp_path / "store", "--pin", "--duration", "1s")
    _, err = process.communicate(timeout=60)
    assert process.returncode == 0 and host.pins() == host.programs() == [], err
    assert host.sh("sh", "-c", "ls /sys/fs/bpf/mburst") == ""


def test_the_interface_is_renamed_between_recorders(host, tmp_path):
    lab = host.lab
    kill(host.record(tmp_path / "first"))
    livelab.sh(f"ip -n {lab.far} link set {lab.b} name veth-c")
    many_senders(lab, 30)
    second = host.record(tmp_path / "second", name="veth-c")
    wait_for(lambda: stored(tmp_path / "second") == 30)
    assert {end(second)["interface"]} == {"veth-c"} and host.pins() == []


def test_the_interface_is_removed_between_recorders(host, tmp_path):
    """The next recorder of another interface removes the pins of the lost interface, and does not use them for a new
    interface with the same index."""
    lab = host.lab
    for number, index in enumerate(("", " index 77", " index 77")):
        kill(host.record(tmp_path / str(number)))
        assert len(host.pins()) == 8
        livelab.sh(f"ip -n {lab.far} link del {lab.b}")
        livelab.sh(f"ip -n {lab.far} link add {lab.b}{index} type veth peer name {lab.a} netns {lab.near}")
        for namespace, name, host_number in ((lab.near, lab.a, 1), (lab.far, lab.b, 2)):
            livelab.sh(f"ip -n {namespace} addr add 10.9.0.{host_number}/24 dev {name}")
            livelab.sh(f"ip -n {namespace} link set {name} up")
    many_senders(lab, 30)
    last = host.record(tmp_path / "last")
    assert len(host.pins()) == 8 and len(host.programs()) == 1
    many_senders(lab, 50)
    wait_for(lambda: stored(tmp_path / "last") == 50)
    row = end(last)
    assert row["packets"] == 50 and "counted with other settings" in row["notes"] and host.pins() == []


def test_the_interface_is_removed_during_a_recording(host, tmp_path):
    process = host.record(tmp_path / "store")
    livelab.sh(f"ip -n {host.lab.far} link del {host.lab.b}")
    process.communicate(timeout=60)
    assert process.returncode == 1 and host.pins() == []


def test_doctor_names_pinned_programs_and_how_to_remove_them(host, tmp_path):
    lab, doctor = host.lab, [*MBURST, "doctor", "--no-self-test"]
    assert "pinned" not in host.sh(*doctor)
    first = host.record(tmp_path / "first")
    assert f"  {lab.b}: a recorder reads what the kernel counts\n" in host.sh(*doctor)
    kill(first)
    shown = host.sh(*doctor)
    [line] = [line for line in shown.splitlines() if "no recorder reads what the kernel counts" in line]
    remove = line.partition("this ends it: ")[2]
    assert line.startswith(f"  {lab.b}: ") and remove.startswith("rm -r /sys/fs/bpf/mburst/")
    [found] = json.loads(host.sh(*doctor, "--json"))["pinned"]
    assert (found["interface"], found["is_read"]) == (lab.b, False)
    elsewhere = ["nsenter", f"--mount=/proc/{host.holder.pid}/ns/mnt", *doctor]
    shown = subprocess.run(elsewhere, capture_output=True, text=True, check=False).stdout
    assert "  an interface of another network namespace: no recorder reads" in shown
    stranger = host.command(*for_all(["setpriv", f"--reuid={STRANGER}", "--clear-groups", *doctor]))
    shown = subprocess.run(stranger, capture_output=True, text=True, check=False, cwd="/").stdout
    assert "pinned (--pin)\n  not known: only root may look" in shown
    host.sh(*remove.split())
    wait_for(lambda: host.programs() == [])  # a grace period of the kernel
    assert host.pins() == [] and "pinned" not in host.sh(*doctor)


@pytest.mark.parametrize("backend", ["auto", "ebpf", "afpacket"])
def test_a_recorder_without_pin_reports_a_pinned_program(host, tmp_path, backend):
    """Only a program of its own interface, while no recorder reads it."""
    options = ("--duration", "1s", "--backend", backend)
    said = "an earlier recorder has left its program pinned here (--pin), and this one leaves it alone: "

    def notes(*more: str, **named: str) -> list[str]:
        out, err = host.begin(tmp_path / "store", *options, *more, **named).communicate(timeout=60)
        assert err == "" and out, err
        return [line for line in json.loads(out.splitlines()[0])["notes"].splitlines() if "pinned" in line]

    first = host.record(tmp_path / "first")
    assert notes() == []
    kill(first)
    [line] = notes()
    remove = line.partition("this ends it: ")[2]
    assert line.startswith(said) and remove.startswith("rm -r /sys/fs/bpf/mburst/") and len(host.pins()) == 8
    assert notes(name="lo") == []
    host.sh(*remove.split())
    wait_for(lambda: host.programs() == [])  # a grace period of the kernel
    assert host.pins() == notes() == []


@pytest.mark.parametrize("step_s", [7, -7])
def test_the_clock_is_set_between_recorders(host, tmp_path, step_s):
    """Packets that were counted before the next recorder saw the step have the old time; an epoch begins after them."""
    with tempfile.NamedTemporaryFile("w", dir="/dev/shm") as offset:  # a recorder may read it there
        offset.write("0")
        offset.flush()
        clock = {"LD_PRELOAD": str(library("tests/c/stepped_clock.c")), "CLOCK_OFFSET": offset.name}
        kill(host.record(tmp_path / "first", environment=clock))
        before = time.time_ns()
        many_senders(host.lab, 60)
        after = time.time_ns()
        offset.seek(0)
        offset.write(str(step_s))
        offset.flush()
        second = host.record(tmp_path / "second", environment=clock)
        wait_for(lambda: stored(tmp_path / "second") == 60)
        many_senders(host.lab, 40)
        wait_for(lambda: stored(tmp_path / "second") == 100)
        later = time.time_ns()
        row = end(second)
    assert (row["packets"], row["clock_epochs"]) == (100, 2)
    (old, first_ns, last_ns), (new, begun_ns, ended_ns) = rows_of(
        tmp_path / "second",
        "SELECT sum(packets)::INT, min(ts_ns), max(ts_ns) FROM bins WHERE direction = 'in' GROUP BY clock_epoch "
        "ORDER BY clock_epoch",
    )
    assert (old, new) == (60, 40)
    width, step_ns = 100_000, step_s * 10**9
    assert before - width < first_ns <= last_ns < after and first_ns % width == begun_ns % width == 0
    assert after + step_ns - width < begun_ns <= ended_ns < later + step_ns


def test_recorders_are_killed_at_random_times(host, tmp_path):
    """While packets arrive: no packet is counted twice, and packets that are not counted are in the gaps."""
    store, sent, tries = tmp_path / "store", [], random.Random(7)
    for _ in range(4):
        process = host.record(store)
        for _ in range(tries.randrange(5, 60)):
            many_senders(host.lab, 10)
            sent.append(time.time_ns())
            time.sleep(tries.random() * 0.02)
        kill(process)
        for _ in range(tries.randrange(60)):
            many_senders(host.lab, 10)
            sent.append(time.time_ns())
            time.sleep(0.005)
    last = host.record(store)
    wait_for(lambda: rows_of(store, "SELECT count(*) FROM gaps WHERE direction = 'in' AND end_ns IS NULL") == [(0,)])
    end(last)
    assert rows_of(store, "SELECT count(*) FROM bins GROUP BY direction, ts_ns HAVING count(*) > 1") == []
    assert rows_of(store, "SELECT sum(dropped)::INT FROM recordings") == [(0,)]
    gaps = rows_of(store, "SELECT start_ns, end_ns FROM gaps WHERE direction = 'in'")
    assert len(gaps) == 4 and all(gap_until - gap_from < 10**9 for gap_from, gap_until in gaps)
    whole = [ns for ns in sent if not any(first - 50_000_000 < ns < last + 50_000_000 for first, last in gaps)]
    assert 10 * len(whole) <= stored(store) <= 10 * len(sent)


def test_all_interfaces_or_none_are_pinned(host, tmp_path):
    """The loopback is down."""
    livelab.sh(f"ip -n {host.lab.far} link set lo down")
    process = host.begin(tmp_path / "store", "--pin", "-i", "lo")
    _, err = process.communicate(timeout=60)
    assert process.returncode == 1 and "lo: the interface is down" in err
    assert host.pins() == host.programs() == []


def test_several_interfaces_are_pinned_in_one_process(host, tmp_path):
    store = tmp_path / "store"
    process = host.record(store, "-i", "lo")
    assert len(host.pins()) == 7 + 8  # frames that leave by the loopback arrive there
    many_senders(host.lab, 20)
    wait_for(lambda: stored(store) == 20)
    process.send_signal(signal.SIGTERM)
    assert process.wait(60) == 0 and len(host.pins()) == 7 + 8
    process.communicate()
    many_senders(host.lab, 30)
    process = host.begin(store, "--pin", "-i", "lo")
    wait_for(lambda: stored(store) == 50)
    process.send_signal(signal.SIGINT)
    assert process.wait(60) == 130 and host.pins() == []
    process.communicate()


def test_pinning_without_a_bpf_file_system_is_refused(host, tmp_path):
    words = [*RECORD, "-i", host.lab.b, "-o", "store", "--pin"]
    done = subprocess.run(
        ["ip", "netns", "exec", host.lab.far, *words], capture_output=True, text=True, cwd=tmp_path, check=False
    )
    assert done.returncode == 1 and done.stderr.count("\n") == 1, done
    assert "--pin needs a mounted BPF file system: mount -t bpf bpf /sys/fs/bpf" in done.stderr
    assert host.programs() == []


def test_pinning_without_tcx_is_refused(host, tmp_path):
    preload = {"LD_PRELOAD": str(library("tests/c/lesser_kernel.c")), "LACKS": "tcx"}
    _, err = host.begin(tmp_path / "store", "--pin", environment=preload).communicate(timeout=60)
    assert err.count("\n") == 1 and "--pin needs tcx (Linux 6.6, CONFIG_NET_XGRESS)" in err, err
    assert host.pins() == []
    assert "direct-action" not in livelab.sh(f"ip netns exec {host.lab.far} tc filter show dev {host.lab.b} ingress")


def test_pinning_with_another_backend_is_refused():
    with pytest.raises(UsageError, match="--pin is for --backend ebpf"):
        recording_of(["lo"], pin=True)
    assert recording_of(["lo"], pin=True, backend="ebpf").live.pin
