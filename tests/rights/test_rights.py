"""The rights of each part that parses input of strangers, while it works, as the kernel reports them. The parts are
started as root, in a store of another user and in a store of root. SECURITY.md has the same table."""

from __future__ import annotations

import json
import os
import re
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from bounded import next_line
from otlplib import DEPTH, T0, call, message, post
from places import ROOT
from ports import free_port
from privilegelib import STRANGER, for_all, needs_root, run_python, threads

from mburst.process import landlock

CAPABILITIES = ("CapInh", "CapPrm", "CapEff", "CapAmb")
OWNER, NOBODY = "owner", "nobody"

# Part → (its command line, its user). STORE, FILE and PORT are filled in.
PARTS = {
    "record": ("record lo -o STORE --threads 2", OWNER),
    "live of an interface": ("live lo -o STORE --listen 127.0.0.1:0 --open", OWNER),
    "live of a store": ("live STORE --listen 127.0.0.1:0 --open", OWNER),
    "metrics": ("metrics STORE --listen 127.0.0.1:0", OWNER),
    "collect": ("collect FILE.yaml -o STORE", OWNER),
    "collect --show": ("collect FILE.yaml --show --duration 1h", NOBODY),
    "probe": ("probe 127.0.0.1:PORT --rate 10/s -o STORE", OWNER),
    "import": ("import probes FILE.csv -o STORE", OWNER),
    "schedule": ("schedule --loop FILE.toml", OWNER),
    "ship": ("ship STORE FILE-archive --every 1h", OWNER),
    "reflect": ("reflect --listen 127.0.0.1:PORT", NOBODY),
    "switch-agent": ("switch-agent lo --listen 127.0.0.1:0", NOBODY),
}

ENDS = ("import",)  # without a signal
CODES = {"import": [0], "collect --show": [1, 130]}  # it ends by itself; nothing arrived, or it had not begun

# Runs a command line. At SIGUSR1, and at the end, it tries actions that only Landlock prevents (everybody may read and
# write the files, so that no user or capability is needed), and reports which succeeded.
HARNESS = """
import atexit, json, os, signal, subprocess, sys
report, outside, words = int(sys.argv[1]), sys.argv[2], sys.argv[3:]

def could(call):
    try:
        call()
        return True
    except PermissionError:
        return False

def status(task):
    try:
        return dict(line.split(":\\t", 1) for line in open(f"/proc/self/task/{task}/status").read().splitlines())
    except OSError:  # it has ended
        return None

def tried(*_):
    tasks = [found for found in map(status, os.listdir("/proc/self/task")) if found]
    did = {"read": could(lambda: open(outside).read()), "write": could(lambda: open(outside, "a")),
           "list": could(lambda: os.listdir(os.path.dirname(outside))), "shadow": could(lambda: open("/etc/shadow")),
           "run": could(lambda: subprocess.run(["/bin/true"]))}
    os.write(report, json.dumps({"did": did, "threads": tasks}).encode() + b"\\n")

signal.signal(signal.SIGUSR1, tried)
atexit.register(tried)
sys.argv = ["mburst", *words]
from mburst.__main__ import command
sys.exit(command())
"""


@pytest.fixture
def outside() -> Iterator[Path]:
    """A file that everybody may read and write, in a folder that everybody may list."""
    with tempfile.TemporaryDirectory(prefix="mburst-test-") as name:
        os.chmod(name, 0o777)
        path = Path(name, "there")
        path.write_text("x")
        path.chmod(0o666)
        yield path


@contextmanager
def place(uid: int) -> Iterator[Path]:
    """A folder of a user, with a store in it and the files that configure parts."""
    with tempfile.TemporaryDirectory(prefix="mburst-test-") as name:
        folder = Path(name)
        store = folder / "store"
        store.mkdir(mode=0o750)
        (store / "mburst.json").write_text('{"format": 2}\n')
        (folder / "file.yaml").write_text(
            "insecure: true\ntargets: {sw: {address: '127.0.0.1:1'}}\n"
            "subscriptions: {all: {paths: [/interfaces], mode: stream}}\n"
            "otlp: {listen: '127.0.0.1:0', http: '127.0.0.1:0'}\n"
        )
        (folder / "file.csv").write_text("src,dst,tx_ns,rtt_ns\na,b,1790000000000000000,1000\n")
        (folder / "file.toml").write_text(
            f'store = "{store}"\n[[report]]\nname = "day"\nevery = "day"\n'
            f'output = "{folder / "reports"}"\nlink = "1G"\n'
        )
        for path in (folder, store, store / "mburst.json"):
            os.chown(path, uid, uid)
        yield folder


def has_given_up(thread: dict[str, str], uid: int) -> bool:
    return (
        thread["Uid"].split() == 4 * [str(uid)]
        and thread["NoNewPrivs"].strip() == "1"
        and all(int(thread[name], 16) == 0 for name in CAPABILITIES)
    )


class Part:
    """A part while it runs."""

    def __init__(self, line: str, folder: Path, outside: Path) -> None:
        words = [
            word.replace("STORE", str(folder / "store"))
            .replace("FILE", str(folder / "file"))
            .replace("PORT", str(free_port()))
            for word in line.split()
        ]
        self.heard, write_end = os.pipe()
        command = [sys.executable, "-P", "-c", HARNESS, str(write_end), str(outside), *words]
        self.process = subprocess.Popen(
            for_all(command), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, pass_fds=[write_end]
        )
        os.close(write_end)

    def report(self) -> dict:
        """Returns the next report of the part about itself."""
        content = b""
        end = time.monotonic() + 60
        while not content.endswith(b"\n"):
            ready, _, _ = select.select([self.heard], [], [], max(0.0, end - time.monotonic()))
            chunk = os.read(self.heard, 1 << 16) if ready else b""
            assert chunk, self.process.communicate(timeout=30)[0]
            content += chunk
        return json.loads(content.splitlines()[-1])

    def wait_for(self, uid: int) -> None:
        """Waits until the part has given up its rights, or has ended."""
        end = time.monotonic() + 60
        while self.process.poll() is None:
            if all(has_given_up(thread, uid) for thread in threads(self.process.pid)):
                return
            assert time.monotonic() < end, [
                (one["Name"], one["Uid"], one["CapEff"], one["NoNewPrivs"]) for one in threads(self.process.pid)
            ]
            time.sleep(0.05)

    def close(self, interrupt: bool) -> str:
        try:
            if interrupt and self.process.poll() is None:
                self.process.send_signal(signal.SIGINT)
            return self.process.communicate(timeout=60)[0]
        finally:
            self.process.kill()
            os.close(self.heard)


@needs_root
@pytest.mark.parametrize("uid", [STRANGER, 0], ids=["in a stranger's store", "in root's store"])
@pytest.mark.parametrize("name", PARTS)
def test_a_part_has_given_up_its_rights(name, uid, outside):
    line, who = PARTS[name]
    with place(uid) as folder:
        uid = uid if who == OWNER else 65534
        part = Part(line, folder, outside)
        try:
            part.wait_for(uid)
            if part.process.poll() is None:
                part.process.send_signal(signal.SIGUSR1)
            found = part.report()
        finally:
            output = part.close(interrupt=name not in ENDS)
    assert part.process.returncode in CODES.get(name, [130]), output
    assert all(has_given_up(thread, uid) for thread in found["threads"]), (found["threads"], output)
    if landlock.version():
        assert not any(found["did"].values()), (found["did"], output)
    assert "Traceback" not in output


def test_the_table_of_security_md_matches():
    text = (ROOT / "SECURITY.md").read_text()
    rows = re.findall(r"^\| `([^`]+)`[^|]*\| ([^|]+?) \|", text, re.MULTILINE)
    assert {name: who for name, who in rows if name in PARTS} == {
        name: "the store's owner" if who == OWNER else "nobody" for name, (_, who) in PARTS.items()
    }


@needs_root
def test_threads_that_started_before_give_up_the_same_rights(outside):
    done = run_python(
        """
import os, signal, sys, threading
from mburst.process import landlock, privileges
go, seen = threading.Event(), []

def early(deaf):
    if deaf:
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    ready.release()
    go.wait()
    try:
        open(sys.argv[1]).read()
        seen.append("read")
    except PermissionError:
        seen.append("refused")

ready = threading.Semaphore(0)
before = [threading.Thread(target=early, args=[i % 2]) for i in range(20)]
for thread in before:
    thread.start()
    ready.acquire()
privileges.own_process()
privileges.confine([], [])
privileges.drop(keep=[privileges.SETUID])

def tasks():
    return [open(f"/proc/self/task/{task}/status").read() for task in os.listdir("/proc/self/task")]

assert len(tasks()) == 21
for text in tasks():
    assert f"CapPrm:\\t{1 << privileges.SETUID:016x}" in text and "NoNewPrivs:\\t1" in text, text
os.setresuid(1, 1, 1)  # what the C library does in all threads, it does as before
assert all("Uid:\\t1\\t1\\t1\\t1" in text for text in tasks())
go.set()
for thread in before:
    thread.join()
assert set(seen) == {"refused" if landlock.version() else "read"}, seen
print("all")
""",
        outside,
    )
    assert done.stdout == "all\n", done.stderr


SETTLED = """
import atexit, sys
from mburst.process import privileges
from mburst.__main__ import entry

def settle(user, real=privileges.settle):
    real(user)
    known = set(sys.modules)
    atexit.register(lambda: print("imported later:", *sorted(set(sys.modules) - known)))

privileges.settle = settle
entry()
"""


@pytest.mark.parametrize(
    "words", [words for words, user in PARTS.values() if user == NOBODY], ids=lambda words: words.split()[0]
)
@needs_root
def test_nobody_needs_no_more_modules(words: str, tmp_path: Path) -> None:
    """Users other than root may not be able to read them, as where Python is in root's folder."""
    ports, points = [free_port(), free_port()], [(DEPTH, "Ethernet0|1", T0, 1)]
    (tmp_path / "FILE.yaml").write_text(f"otlp: {{listen: '127.0.0.1:{ports[0]}', http: '127.0.0.1:{ports[1]}'}}\n")
    process = subprocess.Popen(
        [sys.executable, "-P", "-c", SETTLED, *words.replace("PORT", str(ports[0])).split()],
        **{"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True, "cwd": tmp_path},
    )
    try:
        if "--show" in words:
            assert post(ports[1], message(points))[0] == 200 and not isinstance(call(ports[0], message(points)), str)
        else:
            while "on 127.0.0.1" not in next_line(process):  # a kernel without Landlock is noted before
                pass
        process.terminate()
        output, _ = process.communicate(timeout=60)
    finally:
        process.kill()
        process.communicate()
    assert output.splitlines()[-1] == "imported later:", output
