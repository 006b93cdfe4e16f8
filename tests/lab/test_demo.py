"""The demo: which files it touches, how its detected bursts are compared with the truth, and that it ends cleanly."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from calm import Attempts, beside_slow_disk
from places import ROOT
from storelib import write as fill

from mburst.__main__ import main
from mburst.capture import backends
from mburst.cli.demo import DEFINITION, find
from mburst.errors import MburstError
from mburst.lab.demo.cases import DemoCase
from mburst.lab.demo.folder import MANIFEST, own
from mburst.lab.demo.verdict import verdict
from mburst.lab.rack import namespaces, read_truth
from mburst.sql import StoreFolder

MS = 1_000_000
COMMAND = [sys.executable, "-m", "mburst", "demo"]
CASE = DemoCase(4, tuple((n * 50 * MS + 300_000, n * 50 * MS + 3_700_000) for n in range(3)))


def bursts_of(case: DemoCase) -> list[dict[str, Any]]:
    """Returns the bursts that a detector with bins of 1 ms would report of a case."""
    return [
        {"start_ns": first // MS * MS, "end_ns": -(-last // MS) * MS, "fan_in": 4, "direction": "in", "host": "cache"}
        for first, last in case.rounds
    ]


def test_all_incasts_are_detected() -> None:
    assert verdict(CASE, bursts_of(CASE)) == [
        "Detected 3 of 3 incasts, 0 other bursts.",
        "They start within 300 µs and end within 300 µs of the truth.",
        "Fan-in: 4 senders at once, of 4.",
    ]


def test_missing_incasts_and_other_bursts_are_reported() -> None:
    bursts = bursts_of(CASE)
    bursts[0]["fan_in"] = 3
    bursts[1]["end_ns"] += 4 * MS
    bursts.append(bursts[2] | {"direction": "out"})
    lines = verdict(CASE, bursts)
    assert lines[0] == "Detected 2 of 3 incasts, 1 other burst."
    assert lines[2] == "Fan-in: 3 to 4 senders at once, of 4."
    assert verdict(CASE, []) == ["Detected 0 of 3 incasts, 0 other bursts."]


def test_the_effect_of_the_machine_on_rounds_is_reported() -> None:
    """The last round takes 12 ms more than its bytes need, and is detected as two bursts."""
    first, last = CASE.rounds[2]
    case = replace(CASE, rounds=(*CASE.rounds[:2], (first, last + 12 * MS)), round_ns=3_400_000, stolen=0.031)
    like = bursts_of(CASE)[0]
    bursts = [*bursts_of(CASE), like | {"start_ns": last + 9 * MS, "end_ns": last + 12 * MS},
              like | {"start_ns": last + 500 * MS, "end_ns": last + 503 * MS}]  # fmt: skip
    assert verdict(case, bursts)[:3] == [
        "Detected 2 of 3 incasts, 3 other bursts.",
        "This machine paused while it sent 1 round, which lasted up to 15.4 ms instead of 3.4 ms: these are 1 of the "
        "1 not found, and 2 of the 3 others.",
        "A hypervisor took 3.1 % of its processors' time.",
    ]
    calm = replace(CASE, round_ns=3_400_000, stolen=0.001)
    assert verdict(calm, bursts_of(calm)) == verdict(CASE, bursts_of(CASE))


def test_bursts_in_samples_of_the_switch_are_reported_separately() -> None:
    """They come from the switch's own samples, and never count as bursts that the host recorded."""
    case = replace(CASE, switch="tor")
    own = [burst | {"host": "tor", "direction": "out", "fan_in": 0} for burst in bursts_of(case)[1:]]
    other = own[0] | {"start_ns": 10**12, "end_ns": 10**12 + 5 * MS}
    lines = verdict(case, [*bursts_of(case), *own, other])
    assert lines[:-1] == verdict(CASE, bursts_of(CASE))
    assert lines[-1] == "Detected in the switch's own samples of its port: 2 of 3 incasts, 1 other burst."
    first, last = case.rounds[0]
    beside = [(0, first), (last, last + MS), case.rounds[1]]
    assert verdict(case, [*bursts_of(case), *own, other], beside) == lines
    assert verdict(case, [*bursts_of(case), *own, other], [*beside, (last - MS, last + MS)]) == [
        *lines,
        "Its samples miss a part of 1 of the 1 not found.",
    ]


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_an_earlier_demo_is_replaced_and_nothing_else(tmp_path: Path) -> None:
    folder = tmp_path / "demo"
    with own(folder):
        write(folder / "cache.pcap", "old")
        write(folder / "store" / "bins" / "hot" / "a", "old")
    write(folder / "notes.txt", "mine")
    with own(folder):
        assert sorted(path.name for path in folder.iterdir()) == ["notes.txt"]
        write(folder / "cache.pcap", "new")
    assert (folder / "cache.pcap").read_text() == "new"
    assert (folder / "notes.txt").read_text() == "mine"


def test_a_demo_that_failed_can_be_repeated(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt), own(tmp_path):
        write(tmp_path / "store" / "half", "")
        raise KeyboardInterrupt
    with own(tmp_path):
        assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("foreign", ["store/eth0", "truth.csv", "report/sub/deep.html", "made-by-mburst-demo.txt/x"])
def test_foreign_files_stop_the_demo_before_anything_is_touched(foreign: str, tmp_path: Path) -> None:
    if not foreign.startswith(MANIFEST):
        with own(tmp_path):
            write(tmp_path / "store" / "ours", "ours")
    write(tmp_path / foreign, "mine")
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(MburstError, match=re.escape(foreign)), own(tmp_path):
        pass
    assert sorted(tmp_path.rglob("*")) == before
    assert (tmp_path / foreign).read_text() == "mine"


@pytest.mark.parametrize("is_store", [True, False])
def test_a_store_or_a_file_is_refused_as_the_folder_of_a_demo(
    is_store: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = tmp_path / "mine"
    if is_store:
        StoreFolder.create(place)
    else:
        place.write_text("mine")
    before = sorted(tmp_path.rglob("*"))
    assert main(["demo", "--simulate", "-o", str(place)]) == 1
    lines = capsys.readouterr()
    assert lines.out == "" and f"{place} is a {'store of recordings' if is_store else 'file'}" in lines.err
    assert lines.err.count("\n") == 1 and "-o" in lines.err
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize("wrong", [["--seed", "-1"], ["--duration", "1s"], ["--duration", "soon"]])
def test_wrong_usage_touches_nothing(wrong: list[str], tmp_path: Path) -> None:
    with own(tmp_path):
        write(tmp_path / "store" / "ours", "ours")
    assert main(["demo", "-o", str(tmp_path), *wrong]) == 2
    assert (tmp_path / "store" / "ours").exists()


def test_a_failing_verb_stops_the_demo_with_its_exit_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[str] = []

    def failing(words: list[str]) -> int:
        ran.append(words[0])
        return 3 if words[0] == "import" else 0

    monkeypatch.setattr("mburst.__main__.main", failing)
    assert main(["demo", "--simulate", "-o", str(tmp_path)]) == 3
    assert ran == ["record", "import"]


@pytest.mark.parametrize(("bin_ns", "is_fit"), [(MS, True), (500_000, True), (950_000, False), (2 * MS, False)])
def test_a_switch_that_sampled_too_unevenly_does_not_stop_the_demo(
    bin_ns: int, is_fit: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """If no bin of the demo is a multiple of those of the switch's port, the host alone is detected, also by the
    commands that the demo names, and a line says so."""
    ran: list[list[str]] = []

    def answering(words: list[str]) -> int:
        ran.append(words)
        print("[]" if words[0] == "bursts" else "answer")
        return 0

    store = StoreFolder.create(tmp_path / "store")
    fill(store, "recordings", {"recording_id": "a", "host": "tor", "backend": "otlp", "bin_ns": bin_ns})
    monkeypatch.setattr("mburst.__main__.main", answering)
    definition = find(DemoCase(40, ((0, MS),), switch="tor"), tmp_path)
    assert definition == [*DEFINITION, *([] if is_fit else ["--host", "cache"])]
    assert all(words[words.index("--bin") :][: len(definition)] == definition for words in ran if "--bin" in words)
    printed = capsys.readouterr().out
    assert ("bursts are detected without it" in printed) is not is_fit
    assert ("Detected in the switch's own samples" in printed) is is_fit


def check_what_it_leaves(printed: str, folder: Path) -> None:
    """Asserts that every command that the demo names works, and that its last line names the only page."""
    [page] = folder.rglob("*.html")
    assert printed.splitlines()[-1] == f"The report, to be opened in a browser: {page}"
    follow = [line.strip() for line in printed.split("Go on with:")[1].splitlines() if line.startswith("  mburst")]
    assert len(follow) == 4
    for words in map(shlex.split, follow):
        again = subprocess.run([sys.executable, "-m", *words], capture_output=True, text=True, cwd=ROOT, timeout=300)
        assert (again.returncode, again.stderr) == (0, "")
        assert again.stdout


def simulated(folder: Path, *words: str, before: tuple[str, ...] = ()) -> str:
    """Returns the output of a demo that detected the bursts that it simulated."""
    command = [*before, *COMMAND, "-o", str(folder), *words]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=300)
    assert (done.returncode, beside_slow_disk(done.stderr)) == (0, "")
    assert "Detected 40 of 40 incasts, 0 other bursts." in done.stdout
    assert "Fan-in: 40 senders at once, of 40." in done.stdout
    assert "Bursts into cache (1 Gb/s) cause the latency tail of api → cache (udp)" in done.stdout
    return done.stdout


def without_racks() -> tuple[str, ...]:
    """Returns the beginning of a command that may not make namespaces: run as a user, or as a root without the
    privilege."""
    if os.geteuid() == 0:
        if not shutil.which("setpriv"):
            pytest.skip("setpriv takes the privilege away, and is not installed")
        return ("setpriv", "--bounding-set=-sys_admin", "--inh-caps=-sys_admin")
    return ()


def test_without_a_rack_the_demo_says_so_simulates_and_can_be_repeated(tmp_path: Path) -> None:
    """The second demo uses the folder of the first, and asks for a simulation."""
    folder = tmp_path / "a demo"
    why, empty, then = simulated(folder, before=without_racks()).splitlines()[:3]
    assert why.startswith("The case is simulated, because real packets are not possible here: ")
    assert why.endswith(").") and not empty
    assert then.startswith("Simulated with seed 1")
    printed = simulated(folder, "--simulate", "--seed", "2")
    assert "seed 2" in printed
    check_what_it_leaves(printed, folder)


def racks_of(pid: int) -> list[str]:
    return [name for name in os.listdir(namespaces.FOLDER) if name.startswith(f"mb-{pid}-")]


@dataclass(frozen=True)
class Ended:
    """A demo that has ended."""

    folder: Path
    pid: int
    code: int
    out: str
    err: str


def live_demo(folder: Path) -> Ended:
    with subprocess.Popen(
        [*COMMAND, "-o", str(folder), "--duration", "4s"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    ) as process:
        out, err = process.communicate(timeout=300)
    return Ended(folder, process.pid, process.returncode, out, err)


def every_answer_came(demo: Ended) -> None:
    """Asserts that all answers arrived: what 40 senders send at once just fits the port's queue, unless the machine
    pauses meanwhile."""
    assert (demo.code, demo.err) == (0, "")
    truth = read_truth(demo.folder / "truth.csv")
    assert len(truth) == 13 and all(done.complete for done in truth)


def test_real_packets(can_build: None, tmp_path: Path) -> None:
    """The live recording of the rack by the engine is in the report, and equals to the byte what the senders sent."""
    attempts = Attempts(*(lambda name=name: live_demo(tmp_path / name) for name in ("demo", "again")))
    demo = attempts.held(every_answer_came)
    assert not racks_of(demo.pid)
    found = re.search(r"^Detected (\d+) of 13 incasts, (\d+) other bursts?\.$", demo.out, re.MULTILINE)
    assert found and int(found[1]) > 0
    assert re.search(r"^\$ ip netns exec mb-\S+-cache mburst record -i eth0 ", demo.out, re.MULTILINE)
    assert "To the server's second interface, meanwhile: round trip p50" in demo.out
    con = StoreFolder.open(demo.folder / "store").connect()
    kept = con.execute(
        "SELECT direction, backend, complete, dropped FROM recordings WHERE host = 'cache' ORDER BY direction"
    )
    backend = "ebpf" if not any(state["reason"] for state in backends(None) if state["name"] == "ebpf") else "afpacket"
    assert kept.fetchall() == [("in", backend, True, 0), ("out", backend, True, 0)]
    [(answered,)] = con.execute("SELECT sum(bytes) FROM sources WHERE source LIKE '198.18.1.%'").fetchall()
    # and headers of Ethernet, IP and UDP
    assert answered == sum(done.bytes_rx + 42 * done.dgrams_rx for done in read_truth(demo.folder / "truth.csv"))
    check_the_switch(demo.out, con)
    paths = con.execute("SELECT DISTINCT src, dst FROM probes ORDER BY ALL").fetchall()
    assert paths == [("api", "cache"), ("api", "cache-nic2")]
    check_what_it_leaves(demo.out, demo.folder)


def check_the_switch(printed: str, con: Any) -> None:
    """Asserts that the bins and depths of the switch's exporter are stored with the host's, and that the demo says
    whether these agree."""
    assert re.search(r"^# The switch took [\d,]+ samples, .+ more than 50 µs late; [\d,]+ are missing, ", printed, re.M)
    assert re.search(r"^Detected in the switch's own samples of its port: \d+ of 13 incasts", printed, re.M)
    kept = con.execute("SELECT rack, host, interface, direction, backend, bin_ns, complete FROM recordings "
                       "WHERE host <> 'cache' ORDER BY direction").fetchall()  # fmt: skip
    assert kept == [("r1", "tor", "p-cache", way, "otlp", MS, True) for way in ("in", "out")]
    for way in ("in", "out"):
        [line] = [line for line in printed.splitlines()
                  if f"bytes of the switch's port tor p-cache, with cache eth0 {way}" in line]  # fmt: skip
        assert " disagree" not in line and re.search(r" (\d+) of \1 ", line), line


@contextmanager
def recording_demo(folder: Path) -> Iterator[subprocess.Popen[str]]:
    """Starts a demo that records a rack, with a process group of its own as a shell would give it."""
    process = subprocess.Popen(
        [*COMMAND, "-o", str(folder)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        start_new_session=True,
    )
    try:
        deadline = time.monotonic() + 60
        while not (folder / "store" / "mburst.json").exists() or StoreFolder.open(folder / "store").is_empty("bins"):
            assert process.poll() is None and time.monotonic() < deadline, process.communicate()
            time.sleep(0.05)
        yield process
    finally:
        process.kill()
        process.communicate()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_whatever_ends_it_nothing_is_left_running(can_build: None, number: int, tmp_path: Path) -> None:
    with recording_demo(tmp_path) as process:
        inside = namespaces.processes_in(racks_of(process.pid))
        assert inside and racks_of(process.pid)
        os.killpg(process.pid, number)
        _, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (130, "mburst: interrupted\n")
    assert not racks_of(process.pid)
    assert not [pid for pid in inside if Path(f"/proc/{pid}").exists()]
    [(packets, complete)] = (
        StoreFolder.open(tmp_path / "store")
        .connect()
        .execute("SELECT packets, complete FROM recordings WHERE direction = 'in'")
        .fetchall()
    )
    assert packets > 0 and complete  # the recording is kept
    with own(tmp_path):  # and the next demo takes its folder as its own
        assert not (tmp_path / "store").exists()
