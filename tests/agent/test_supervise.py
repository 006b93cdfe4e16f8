"""Parts under one process are restarted when they fail, and end together cleanly."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import socket
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest
from processes import children, verb_of
from unread import unread
from waiting import wait_for

from mburst.agent.config import RunPart
from mburst.agent.supervise import Supervisor
from mburst.agent.watchdog import Watchdog
from mburst.sql import StoreFolder

MBURST = [sys.executable, "-m", "mburst"]


@pytest.fixture
def running(tmp_path):
    """`mburst run` with metrics and reports: the process, once both parts answer."""
    (tmp_path / "mburst.toml").write_text(
        'store = "store"\nrack = "r1"\n[metrics]\nlisten = "127.0.0.1:0"\n'
        '[[report]]\nname = "hourly"\nevery = "hour"\nracks = ["r1"]\noutput = "reports"\n'
    )
    StoreFolder.create(tmp_path / "store")
    with (tmp_path / "log").open("w") as log:
        process = subprocess.Popen(
            [*MBURST, "run"], cwd=tmp_path, stdout=log, stderr=subprocess.STDOUT, start_new_session=True
        )
    process.log = lambda: (tmp_path / "log").read_text()
    try:
        wait_for(lambda: "metrics: metrics of store: http://" in process.log(), "metrics")
        wait_for(lambda: "report: report: reports/rack-r1-" in process.log(), "a report")
        yield process
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 0), (signal.SIGINT, 130)])
def test_one_signal_ends_all_parts(running, number, code):
    parts = children(running.pid)
    assert sorted(map(verb_of, parts)) == ["metrics", "schedule"]
    running.send_signal(number)
    assert running.wait(60) == code
    assert not any(Path(f"/proc/{pid}").exists() for pid in parts) and "Traceback" not in running.log()


def test_a_signal_to_the_whole_process_group_still_ends_all_cleanly(running):
    parts = children(running.pid)
    for pid in [*parts, running.pid, *parts, running.pid]:
        with suppress(ProcessLookupError):  # a part may have ended before the second signal
            os.kill(pid, signal.SIGTERM)
    assert running.wait(60) == 0 and "ended with" not in running.log()


def test_a_hangup_of_all_processes_reloads(running):
    """`pkill -HUP mburst` signals every process: no part ends."""
    parts = children(running.pid)
    for pid in [*parts, running.pid]:
        os.kill(pid, signal.SIGHUP)
    wait_for(lambda: "mburst: reloaded: nothing changed\n" in running.log(), "the reload")
    assert children(running.pid) == parts and "restarting" not in running.log()
    running.terminate()
    assert running.wait(60) == 0


@pytest.mark.parametrize(
    ("number", "name"),
    [
        (signal.SIGKILL, "SIGKILL"),
        (signal.SIGTERM, "SIGTERM"),
        (signal.SIGINT, "SIGINT"),
        (signal.SIGRTMIN + 6, f"signal {signal.SIGRTMIN + 6}"),
    ],
)
def test_a_part_that_somebody_else_ends_is_restarted(running, number, name):
    """Also one that ends cleanly after SIGTERM or SIGINT: `mburst run` did not ask for it."""
    [metrics] = [pid for pid in children(running.pid) if verb_of(pid) == "metrics"]
    os.kill(metrics, number)
    wait_for(lambda: running.log().count("metrics: metrics of store: http://") == 2, "the second start")
    assert f"metrics was ended by {name}: restarting in 1 s" in running.log()
    running.terminate()
    assert running.wait(60) == 0


@pytest.mark.parametrize("output", ["a reader that goes", "a full disk"])
def test_parts_outlive_the_reader_of_their_output(tmp_path, output):
    """`mburst run 2>&1 | head -1`, or a log on a full disk: lines are lost, but no part ends."""
    (tmp_path / "mburst.toml").write_text('store = "store"\n[metrics]\nlisten = "127.0.0.1:0"\n')
    StoreFolder.create(tmp_path / "store")
    reading, writing = os.pipe()
    if output == "a full disk":
        os.dup2(os.open("/dev/full", os.O_WRONLY), writing)
    process = subprocess.Popen([*MBURST, "run"], cwd=tmp_path, stdout=writing, stderr=writing)
    os.close(writing)
    try:
        if output == "a reader that goes":
            assert os.read(reading, 1) == b"m"
        os.close(reading)
        wait_for(lambda: children(process.pid), "the part")
        [first] = children(process.pid)
        wait_for(lambda: verb_of(first) == "metrics", "the part's start")
        os.kill(first, signal.SIGKILL)
        wait_for(lambda: process.poll() is not None or children(process.pid) not in ([], [first]), "the second start")
        [second] = children(process.pid)
        process.terminate()
        assert process.wait(60) in ((0,) if output == "a reader that goes" else (0, 1))
        assert second != first
    finally:
        process.kill()
        process.wait()


@pytest.mark.parametrize("kind", ["terminal", "pipe"])
def test_parts_are_kept_while_nobody_reads_their_output(tmp_path, kind):
    """A terminal that is stopped (Ctrl-S), or a log service that does not read: parts are restarted, and end."""
    (tmp_path / "mburst.toml").write_text('store = "store"\n[metrics]\nlisten = "127.0.0.1:0"\n')
    StoreFolder.create(tmp_path / "store")
    with unread(kind) as output:
        process = subprocess.Popen([*MBURST, "run"], cwd=tmp_path, stdout=output.descriptor, stderr=output.descriptor)
        try:
            first = started_part(process.pid, 0)
            os.kill(first, signal.SIGKILL)
            second = started_part(process.pid, first)
            os.kill(second, signal.SIGKILL)
            started_part(process.pid, second)
            process.terminate()
            assert process.wait(60) == 0
        finally:
            process.kill()
            process.wait()


def started_part(supervisor: int, before: int) -> int:
    """Returns the only part of a supervisor, other than BEFORE, once it has started."""
    wait_for(lambda: [part for part in children(supervisor) if part != before and verb_of(part)], "the part")
    [part] = children(supervisor)
    return part


def test_parts_end_when_their_supervisor_is_killed(running):
    parts = children(running.pid)
    running.kill()
    running.wait()
    wait_for(lambda: not any(Path(f"/proc/{pid}").exists() for pid in parts), "the parts' end")


def test_the_supervisor_ends_when_all_parts_are_done(tmp_path):
    path = tmp_path / "store"
    StoreFolder.create(path)
    parts = [RunPart("a", ["sql", str(path)]), RunPart("b", ["sql", str(path), "recordings"])]
    assert asyncio.run(Supervisor(parts).run()) == 0


def test_a_part_that_rejects_its_arguments_ends_alone(tmp_path):
    """No check of the file can detect this error. The other parts run on until they are ended."""
    store = tmp_path / "store"
    (tmp_path / "mburst.toml").write_text(
        f'store = "{store}"\n[metrics]\nlisten = "127.0.0.1:0"\n[record]\ninputs = "file"\nduration = "1m"\n'
    )
    (tmp_path / "file").touch()  # an interface of that name would be recorded
    StoreFolder.create(store)
    with (tmp_path / "log").open("w") as file:
        process = subprocess.Popen([*MBURST, "run"], cwd=tmp_path, stdout=file, stderr=subprocess.STDOUT)

    def log() -> str:
        return (tmp_path / "log").read_text()

    try:
        wait_for(lambda: "metrics: metrics of" in log() and "is not restarted" in log(), "both")
        assert "record: mburst: --duration is for interfaces, and file is not one" in log()
        assert "mburst: record ended (2) and is not restarted; the other parts continue" in log()
        assert [verb_of(pid) for pid in children(process.pid)] == ["metrics"] and process.poll() is None
        process.terminate()
        assert process.wait(60) == 2
    finally:
        process.kill()
        process.wait()
    assert log().count("record:") == 1 and "restarting" not in log()


def test_the_supervisor_ends_when_all_parts_reject_their_arguments(tmp_path, capfd):
    parts = [RunPart("bad", ["metrics", "--listen=127.0.0.1:zero", str(tmp_path / "store")])]
    assert asyncio.run(Supervisor(parts).run()) == 2
    assert "bad: mburst: invalid address '127.0.0.1:zero'" in capfd.readouterr().err


def test_a_live_recording_ends_as_it_does_without_a_supervisor(tmp_path, packet_socket):
    """All rows in the store before SIGTERM are in the recording that SIGTERM ends, and its row states why it ended."""
    (tmp_path / "mburst.toml").write_text(
        'store = "store"\n[record]\ninputs = ["lo", "udp port 9"]\nlink = "1G"\nhost = "h"\n'
    )
    with (tmp_path / "log").open("w") as log:
        process = subprocess.Popen([*MBURST, "run"], cwd=tmp_path, stdout=log, stderr=subprocess.STDOUT)

    def held() -> int:
        if not (tmp_path / "store" / "mburst.json").exists():
            return 0
        with StoreFolder.open(tmp_path / "store").connect() as con:
            return con.execute("SELECT coalesce(sum(packets), 0) FROM bins").fetchall()[0][0]

    seen = 0
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:

            def enough() -> bool:
                nonlocal seen
                for _ in range(50):
                    sender.sendto(b"x" * 400, ("127.0.0.1", 9))
                seen = held()
                return seen >= 500

            wait_for(enough, "a recording of 500 packets")
        process.terminate()
        assert process.wait(60) == 0, (tmp_path / "log").read_text()
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
    with StoreFolder.open(tmp_path / "store").connect() as con:
        [(packets, complete, notes)] = con.execute("SELECT packets, complete, notes FROM recordings").fetchall()
    assert complete and "ended by SIGTERM" in notes and seen <= packets == held()


@pytest.fixture
def packet_socket():
    try:
        socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0).close()
    except (OSError, AttributeError):
        pytest.skip("needs the right to open packet sockets (root, or CAP_NET_RAW)")


# --- hung parts ---


def test_a_hung_part_is_killed_and_restarted(tmp_path, capfd, monkeypatch):
    """A part that has not given a sign of life yet may start as slowly as it likes. The supervisor itself may be
    stopped, too."""
    monkeypatch.setattr("mburst.agent.watchdog.SILENT_S", 3.0)
    StoreFolder.create(tmp_path / "store")

    async def hang() -> None:
        supervisor = Supervisor([RunPart("metrics", ["metrics", "--listen=127.0.0.1:0", str(tmp_path / "store")])])
        running = asyncio.create_task(supervisor.run())
        started, stopped = 0, False
        for _ in range(600):
            await asyncio.sleep(0.1)
            started = Path("/proc/self/fd/1").read_text().count("metrics of")  # readouterr() loses late output
            if started == 1 and supervisor.running["metrics"].process and not stopped:
                await asyncio.sleep(1.5)  # until the first sign of life
                os.kill(supervisor.running["metrics"].process.pid, signal.SIGSTOP)
                stopped = True
            if started == 2:
                break
        assert started == 2
        supervisor._stop()
        assert await running == 0

    asyncio.run(hang())


@pytest.mark.parametrize(("seconds", "looks"), [(30.0, 7), (1.0, 10)])
def test_silence_counts_only_while_the_watchdog_runs(monkeypatch, seconds, looks):
    """If the machine slept between two checks, the part is not at fault."""
    now = 100.0
    monkeypatch.setattr("mburst.agent.watchdog.time.monotonic", lambda: now)
    watchdog = Watchdog()
    try:
        assert not watchdog.is_hung()
        for _ in range(20):  # the part starts slowly
            now += 1.0
            assert not watchdog.is_hung()
        watchdog.given.send(b"1")
        assert not watchdog.is_hung()
        found = []
        for _ in range(12):
            now += seconds
            found.append(watchdog.is_hung())
        assert found.index(True) == looks - 1  # each check counts at most 1.5 s
        watchdog.given.send(b"1")
        assert not watchdog.is_hung()
    finally:
        watchdog.close()


# --- systemd ---


def test_systemd_gets_ready_status_watchdog_and_stopping(tmp_path):
    store = StoreFolder.create(tmp_path / "store")
    (tmp_path / "mburst.toml").write_text(f'store = "{store.path}"\n[metrics]\nlisten = "127.0.0.1:0"\n')
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(tmp_path / "notify"))
        manager.settimeout(30)
        environment = {**os.environ, "NOTIFY_SOCKET": str(tmp_path / "notify"), "WATCHDOG_USEC": "3000000"}
        process = subprocess.Popen(
            [*MBURST, "run"], cwd=tmp_path, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        try:
            said = [manager.recv(4096).decode()]
            assert said == ["READY=1"]
            while said.count("WATCHDOG=1") < 2 or "STATUS=1 of 1 parts run" not in said:
                said.append(manager.recv(4096).decode())
            [part] = children(process.pid)
            given = Path(f"/proc/{part}/environ").read_text()
            assert "NOTIFY_SOCKET" not in given and "WATCHDOG_USEC" not in given
            process.send_signal(signal.SIGHUP)
            while said[-1] != "READY=1":
                said.append(manager.recv(4096).decode())
            assert re.fullmatch(r"RELOADING=1\nMONOTONIC_USEC=\d+", said[-2])
            process.terminate()
            while said[-1] != "STOPPING=1":
                said.append(manager.recv(4096).decode())
            assert process.wait(60) == 0
        finally:
            process.kill()
            process.communicate()


# --- the file is read again ---


def test_a_reload_restarts_only_changed_parts(tmp_path):
    store = StoreFolder.create(tmp_path / "store")

    def write(*tables: str) -> None:
        (tmp_path / "mburst.toml").write_text("\n".join([f'store = "{store.path}"', *tables]))

    def metrics(name: str, more: str = "") -> str:
        return f'[[metrics]]\nname = "{name}"\nlisten = "127.0.0.1:0"\n{more}'

    token = tmp_path / "token"
    token.write_text("a" * 32)
    token.chmod(0o600)
    secret = f'token-file = "{token}"\n'
    write(metrics("same"), metrics("changed"), metrics("gone"), metrics("secret", secret))
    with (tmp_path / "log").open("w") as file:
        process = subprocess.Popen([*MBURST, "run"], cwd=tmp_path, stdout=file, stderr=subprocess.STDOUT)

    def log() -> str:
        return (tmp_path / "log").read_text()

    def started(*names: str) -> dict[str, int]:
        wait_for(lambda: all(log().count(f"metrics {name}: metrics of") for name in names), f"{names} in {log()}")
        return {name: log().count(f"metrics {name}: metrics of") for name in names}

    def reload(expected: str) -> None:
        count = log().count(expected)
        process.send_signal(signal.SIGHUP)
        wait_for(lambda: log().count(expected) == count + 1, f"{expected} in {log()}")

    try:
        assert set(started("same", "changed", "gone", "secret").values()) == {1}
        reload("mburst: reloaded: nothing changed\n")
        write(metrics("same"), metrics("changed", 'link = "25G"\n'))
        (tmp_path / "mburst.toml").write_text("nonsense")
        reload("mburst: not reloaded, all parts continue: mburst.toml: invalid TOML")
        write(metrics("same", 'link = "fast"\n'))
        reload("mburst: not reloaded, all parts continue: mburst.toml: [metrics]: argument --link: invalid link speed")
        token.write_text("b" * 32)
        write(metrics("same"), metrics("changed", 'since = "1h"\n'), metrics("new"), metrics("secret", secret))
        reload("mburst: reloaded: ended metrics gone; restarted metrics changed, metrics secret; started metrics new\n")
        wait_for(lambda: log().count("metrics secret: metrics of") == 2, "the second start")
        wait_for(lambda: log().count("metrics changed: metrics of") == 2, "the second start")
        started("new")
        wait_for(lambda: len(children(process.pid)) == 4, "four parts")
        assert started("same", "gone") == {"same": 1, "gone": 1} and "restarting" not in log()
        process.terminate()
        assert process.wait(60) == 0
    finally:
        process.kill()
        process.wait()
