"""`mburst probe`, `mburst reflect` and `mburst compare` as users run them."""

from __future__ import annotations

import json
import os
import pty
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from bounded import next_line
from calm import Attempts
from ports import free_port
from storelib import rows, write
from waiting import wait_for

from mburst.__main__ import main
from mburst.cli import probe as verb
from mburst.cli.probe_words import ProbeLine
from mburst.errors import UsageError
from mburst.services.prober import interface_of
from mburst.sql import StoreFolder

MS = 1_000_000
MBURST = [sys.executable, "-m", "mburst"]


class Reflecting:
    """Runs `mburst reflect` in a process."""

    def __init__(self, *arguments: str) -> None:
        self.where = f"127.0.0.1:{free_port()}"
        self.process = subprocess.Popen(
            [*MBURST, "reflect", "--listen", self.where, *arguments], stdout=subprocess.PIPE, text=True
        )
        self.first = next_line(self.process)

    def end(self, number: int) -> tuple[int, str]:
        self.process.send_signal(number)
        out, _ = self.process.communicate(timeout=30)
        return self.process.returncode, out


@pytest.fixture
def reflector() -> Iterator[Reflecting]:
    made = Reflecting()
    yield made
    made.process.kill()
    made.process.communicate()


def test_the_line_leaves_out_probes_with_unknown_latency(capsys):
    """Probes that were in flight when the clock was set."""
    line = ProbeLine()
    known = [{"app_send_ns": 1000, "app_recv_ns": 4000}, {"app_send_ns": 1000, "app_recv_ns": None, "lost": True}]
    unknown = {"app_send_ns": 1000, "app_recv_ns": None}
    line.show(rows("probes", *known, unknown))
    line.show(rows("probes", unknown))
    assert [text.removeprefix("\x1b[K") for text in capsys.readouterr().err.split("\r")[1:]] == [
        "3 probes, 1 lost, the last ones p50 3 µs (application)",
        "4 probes, 1 lost",
    ]


def test_a_probe_is_a_row_and_a_line_of_the_table(reflector, tmp_path, capsys):
    store = tmp_path / "store"
    assert (
        main(
            [
                "probe",
                reflector.where,
                "--count",
                "200",
                "--rate",
                "500",
                "-o",
                str(store),
                "--host",
                "api",
                "--source-ports",
                "2",
            ]
        )
        == 0
    )
    out = capsys.readouterr().out
    assert out.count(f" → {reflector.where} (udp): 100 probes") == 2 and "stamps by the kernel" in out
    assert [line.split("  ")[0] for line in out.splitlines() if line[:4] in ("roun", "this", "that", "appl")] == [
        "application",
        "round trip",
        "this host",
        "that host",
    ] * 3
    assert f" → {reflector.where} (udp, 2 paths): 200 probes" in out
    rows = (
        StoreFolder.open(store)
        .connect()
        .execute("SELECT src, dst, protocol, count(*), count(DISTINCT batch), bool_or(lost) FROM probes GROUP BY ALL")
        .fetchall()
    )
    assert len(rows) == 2 and all(
        row[0].startswith("api:") and row[1:] == (reflector.where, "udp", 100, 1, False) for row in rows
    )
    code, message = reflector.end(signal.SIGTERM)
    assert (code, reflector.first) == (0, f"reflecting on {reflector.where}, UDP and TCP\n")
    assert message == "answered 200 probes in 2 sessions\n"


def test_json_has_every_measure(reflector, capsys):
    assert main(["probe", reflector.where, "--count", "150", "--rate", "500", "--json"]) == 0
    [payload] = json.loads(capsys.readouterr().out)
    assert (payload["sent"], payload["n"], payload["lost"], payload["stamps"]) == (150, 150, 0, "sw")
    for name in ("application", "round_trip", "forward", "back", "host_here", "host_there"):
        levels = [payload[name][key] for key in ("min_ns", "p50_ns", "p90_ns", "p95_ns", "p99_ns", "max_ns")]
        assert levels == sorted(levels) and payload[name]["n"] == 150 and payload[name]["p999_ns"] is None
    assert payload["clocks"]["uncertainty_ns"] < MS and abs(payload["clocks"]["offset_ns"]) < MS


def test_an_interrupt_keeps_the_measurements(reflector, tmp_path):
    process = subprocess.Popen(
        [*MBURST, "probe", reflector.where, "-o", str(tmp_path / "store")],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    time.sleep(2.5)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=30)
    assert process.returncode == 130 and "round trip" in out and err == ""
    assert StoreFolder.open(tmp_path / "store").connect().execute("SELECT count(*) FROM probes").fetchall()[0][0] > 100


def test_closing_the_terminal_keeps_the_measurements(reflector, tmp_path):
    """The progress line cannot be written any more, and SIGHUP ends the probing like SIGTERM."""
    terminal, its_end = pty.openpty()
    process = subprocess.Popen(
        [*MBURST, "probe", reflector.where, "-o", str(tmp_path / "store")], stdout=its_end, stderr=its_end
    )
    os.close(its_end)
    wait_for(lambda: b"lost" in os.read(terminal, 4096), "its progress line")
    os.close(terminal)
    time.sleep(1.5)  # for lines that are not read
    process.send_signal(signal.SIGHUP)
    assert process.wait(30) == 0
    store = StoreFolder.open(tmp_path / "store")
    assert store.unsealed() == {}
    assert store.connect().execute("SELECT count(*) FROM probes").fetchall()[0][0] > 100


def probed_while_stalling(where, pid=None):
    """Probes WHERE while process PID, or the prober, is stopped for 10 ms at random times. Returns the JSON output."""
    stop = threading.Event()
    process = subprocess.Popen(
        [*MBURST, "probe", where, "--duration", "3s", "--rate", "500", "--json"], stdout=subprocess.PIPE, text=True
    )

    def stall(pid: int) -> None:
        rng = random.Random(1)
        while not stop.wait(rng.expovariate(20)):
            os.kill(pid, signal.SIGSTOP)
            time.sleep(0.01)
            os.kill(pid, signal.SIGCONT)

    thread = threading.Thread(target=stall, args=(pid or process.pid,))
    thread.start()
    assert process.stdout
    out = process.stdout.read()
    stop.set()
    thread.join()  # before wait(): until then no other process can have this pid
    process.stdout.close()
    assert process.wait() == 0
    [payload] = json.loads(out)
    return payload


@pytest.mark.parametrize("end", ["here", "there"])
def test_time_of_a_stopped_application_counts_for_the_host_and_not_the_network(reflector, end):
    """The kernels continue to stamp."""
    stopped = {"here": None, "there": reflector.process.pid}[end]

    def is_host_share(payload):
        assert payload[f"host_{end}"]["p95_ns"] > 3 * MS and payload["lost"] == 0
        assert all(payload[part]["p95_ns"] < MS for part in ("round_trip", "forward", "back"))

    def measured():
        return probed_while_stalling(reflector.where, stopped)

    Attempts(measured, measured).held(is_host_share)


def test_hosts_that_do_not_answer_or_resolve_are_reported(reflector, capsys):
    closed = f"127.0.0.1:{free_port()}"
    assert main(["probe", reflector.where, closed, "nosuch.invalid", "--count", "20", "--timeout", "100ms"]) == 1
    message = capsys.readouterr()
    assert "20 probes" in message.out and "no answer\n" in message.out
    lines = message.err.splitlines()
    assert len(lines) == 3 and all(line.startswith("mburst: ") for line in lines)
    assert "nosuch.invalid: the name does not resolve" in lines[0] and "port closed" in lines[1]
    assert lines[2] == f"mburst: {closed}: no answer"


def test_a_host_that_was_never_probed_is_not_said_to_be_silent(reflector, capsys):
    """Only the first is probed: the others would be later, in turn."""
    hosts = [f"127.0.0.1:{free_port()}" for _ in range(2)]
    assert main(["probe", reflector.where, *hosts, "--rate", "1/h", "--duration", "100ms"]) == 0
    said = capsys.readouterr().err.splitlines()
    assert said == [f"mburst: {host}: no probe was due" for host in sorted(hosts)]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_a_signal_before_the_first_answer_is_no_failure(tmp_path, number):
    """`mburst run` would end with 1."""
    words = [f"127.0.0.1:{free_port()}", "nosuch.invalid", "--timeout", "500ms", "-o", tmp_path / "store"]
    process = subprocess.Popen([*MBURST, "probe", *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert "does not resolve" in process.stderr.readline()
    wait_for(lambda: any((tmp_path / "store").glob("hot/probes/*.log")) or process.poll() is not None, "a probe")
    process.send_signal(number)
    printed = process.communicate(timeout=60)[1]
    assert process.returncode == (130 if number == signal.SIGINT else 0) and "no answer" not in printed


@pytest.mark.parametrize(
    "arguments, code, message",
    [
        (["nosuch.invalid"], 1, "does not resolve"),
        (["127.0.0.1:x"], 2, "invalid port"),
        (["127.0.0.1:"], 2, "port"),
        (["[::1"], 2, "invalid host"),
        (["h", "--rate", "6000/s"], 2, "--rate"),
        (["h", "--rate", "0"], 2, "--rate"),
        (["h", "--size", "45"], 2, "44, or 48"),
        (["h", "--protocol", "tcp", "--size", "8"], 2, "16 to"),
        (["h", "--dscp", "64"], 2, "--dscp"),
        (["h", "--source-ports", "1-2-3"], 2, "--source-ports"),
        (["h", "--source-ports", "4", "--protocol", "icmp"], 2, "no ports"),
        (["127.0.0.1:22", "--protocol", "icmp"], 2, "127.0.0.1:22: icmp has no ports (write 127.0.0.1"),
        (["::1", "[::1]:22", "--protocol", "icmp"], 2, "[::1]:22: icmp has no ports (write ::1"),
        (["h", "--timeout", "0s"], 2, "--timeout"),
        (["h", "--count", "0"], 2, "--count"),
        (
            ["127.0.0.1", "--source", "192.0.2.1", "--count", "1"],
            1,
            "192.0.2.1: Cannot assign requested address (no interf",
        ),
        (["127.0.0.1", "--count", "1", "-o", "/proc/nowhere"], 1, "/proc/nowhere"),
        (["127.0.0.1", "--source-ports", "1,1"], 2, "twice"),
    ],
)
def test_errors_of_the_call_are_one_line(arguments, code, message):
    done = subprocess.run([*MBURST, "probe", *arguments], capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stdout) == (code, "") and message in done.stderr
    assert len(done.stderr.splitlines()) == 1 and "Traceback" not in done.stderr


@pytest.mark.parametrize(
    "arguments, code, message",
    [
        (["--listen", "127.0.0.1:0"], 2, "invalid port"),
        (["--listen", "nosuch.invalid"], 2, "not an address"),
        (
            ["--listen", "192.0.2.1"],
            1,
            "Cannot assign requested address (no interface of this machine has that address: ",
        ),
        (["--delay", "x"], 2, "invalid delay"),
        (["--delay", "file:/nowhere.csv"], 1, "/nowhere.csv"),
    ],
)
def test_errors_of_calling_a_reflector_are_one_line(arguments, code, message):
    done = subprocess.run([*MBURST, "reflect", *arguments], capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stdout) == (code, "") and message in done.stderr
    assert len(done.stderr.splitlines()) == 1 and "Traceback" not in done.stderr


@pytest.mark.parametrize(
    "text, rate", [("1000/s", 1000), ("5000", 5000), ("30/m", 0.5), ("2.5/s", 2.5), ("36/h", 0.01), ("1/h", 1 / 3600)]
)
def test_rates(text, rate):
    assert verb.parse_frequency(text) == rate


@pytest.mark.parametrize(
    "text, ports",
    [(None, (0,)), ("3", (0, 0, 0)), ("40000-40002", (40000, 40001, 40002)), ("80,443", (80, 443)), ("65", (65,))],
)
def test_source_ports(text, ports):
    assert verb.parse_ports(text, "udp") == ports


@pytest.mark.parametrize("text, value", [("ef", 46), ("AF41", 34), ("cs1", 8), ("0", 0), ("63", 63)])
def test_classes(text, value):
    assert verb.parse_dscp(text) == value
    with pytest.raises(UsageError):
        verb.parse_dscp(text + "x")


def test_the_interface_of_an_address():
    assert interface_of("127.0.0.1") == "lo" and interface_of("192.0.2.1") == ""


# --- compare and report -----------------------------------------------------------------------------------------------

START = 1_795_228_440_000_000_000


@pytest.fixture
def stores(tmp_path: Path) -> tuple[str, str]:
    """Two stores with probes for 20 s, of about 1 ms and 3 ms."""
    for name, took in (("a", MS), ("b", 3 * MS)):
        write(
            StoreFolder.create(tmp_path / name),
            "probes",
            *(
                {"seq": i, "tx_ns": START + i * 10 * MS, "rx_ns": START + i * 10 * MS + took + i % 100 * 1000}
                for i in range(2000)
            ),
        )
    return str(tmp_path / "a"), str(tmp_path / "b")


def test_compare_states_which_is_better(stores, capsys):
    a, b = stores
    assert main(["compare", a, b, "--slow", "2ms"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["A", "B", "B", "/", "A"] and lines[4].split() == ["probes", "2,000", "2,000"]
    assert lines[3].split() == ["latency", "round", "trip", "round", "trip"]
    assert [line.split()[0] for line in lines[6:11]] == ["p50", "p90", "p95", "p99", "p99.9"]
    assert lines[-1].startswith("B is worse: the p99 is 3.1 ms against 1.1 ms, 2.82 (")
    assert [cell for cell in lines[-3].split("  ") if cell.strip() and cell != "B"][-5:] == ["100 %"] * 5


def test_times_of_one_store_are_compared(stores, capsys):
    a, _ = stores
    assert main(["compare", a, a, "--a", "until=10s", "--b", "since=10s", "--json"]) == 0
    payload = json.loads(capsys.readouterr().out)
    assert abs(payload["a"]["n"] - 1000) <= 1 and payload["a"]["n"] + payload["b"]["n"] == 2000
    assert payload["verdict"] == "alike"


@pytest.mark.parametrize(
    "more, code, message",
    [
        (["--a", "dst=nobody"], 1, "no probe with dst=nobody (`mburst sql"),
        (["--a", "until=2001-01-01"], 1, "nothing to compare: A has no probes"),
        (["--b", "since=2090-01-01"], 2, "is in the future"),
        (["--both", "until=2001-01-01"], 1, "nothing to compare: A and B have no probes"),
        (["--a", "color=red"], 2, "not KEY=VALUE"),
        (["--b", "since=x"], 2, "invalid time"),
        (["--slow", "x"], 2, "duration"),
        (["--a", "since=1s", "--a", "until=5s"], 2, "since is not before"),
    ],
)
def test_errors_of_a_comparison_are_one_line(stores, capsys, more, code, message):
    assert main(["compare", *stores, *more]) == code
    out, err = capsys.readouterr()
    assert out == "" and message in err and len(err.splitlines()) == 1


def test_a_report_of_probes_alone(stores, tmp_path, capsys):
    assert main(["report", stores[0], "-o", str(tmp_path / "out")]) == 0
    page, facts = (Path(line.split(": ")[1]) for line in capsys.readouterr().out.splitlines())
    [path] = json.loads(facts.read_text())["paths"]
    assert (path["n"], path["measures"]["round_trip"]["p99_ns"]) == (2000, MS + 98 * 1000)
    assert [minute["n"] for minute in path["minutes"]] == [2000]
    html = page.read_text()
    assert "a → b (udp)" in html and 'data-figure="distribution"' in html
