"""Commands that tests fork see the same environment as in a new interpreter (tests/lib/forked_commands.py)."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import forked_commands
import pytest

from mburst.sql import disk

# Prints what a program can see of its start; with words, ends in the given way. Of the mounts only those of /sys are
# printed: tests that run at the same time change others.
LOOK = """
import json, os, resource, signal, sys, threading
streams = {
    name: [getattr(sys, name).fileno(), getattr(sys, name).encoding, getattr(sys, name).errors,
           getattr(sys, name).line_buffering, getattr(sys, name).newlines, getattr(sys, name).isatty()]
    for name in ("stdin", "stdout", "stderr")
}
def others(fd):
    try:
        return os.path.basename(os.readlink(f"/proc/self/fd/{fd}")) == "given"
    except OSError:
        return False
print(json.dumps({
    "environment": dict(os.environ), "cwd": os.getcwd(), "argv": sys.argv[1:], "argv0": os.path.basename(sys.argv[0]),
    "path": sys.path, "flags": list(sys.flags), "streams": streams, "umask": os.umask(0), "parent": os.getppid(),
    "session is own": os.getsid(0) == os.getpid(), "group": "own" if os.getpgid(0) == os.getpid() else os.getpgid(0),
    "session": os.getsid(0) if os.getsid(0) != os.getpid() else 0, "users": [os.getresuid(), os.getresgid()],
    "limits": [resource.getrlimit(number) for number in range(16)], "threads": threading.active_count(),
    "signals": [str(signal.getsignal(number)) for number in range(1, 32)],
    "blocked": sorted(signal.pthread_sigmask(signal.SIG_BLOCK, [])), "name": __name__, "spec": __spec__.name,
    "main": sys.modules["__main__"].__spec__.name,
    "given": [fd for fd in map(int, os.listdir("/proc/self/fd")) if others(fd)],
    "open": len(os.listdir("/proc/self/fd")), "pandas": "pandas" in sys.modules,
    "mounts": [line.split()[3:5] for line in open("/proc/self/mountinfo") if line.split()[4].startswith("/sys")],
    "interfaces": os.listdir("/sys/class/net"),
    "network": os.readlink("/proc/self/ns/net"),
}))
sys.stderr.write("written\\n")
if "input" in sys.argv:
    print(sys.stdin.read())
if "raise" in sys.argv:
    raise ValueError("this")
if "text" in sys.argv:
    sys.exit("a reason")
if "interrupt" in sys.argv:
    os.kill(os.getpid(), signal.SIGINT)
if "kill" in sys.argv:
    sys.stdout.flush()
    os.kill(os.getpid(), signal.SIGKILL)
if "thread" in sys.argv:
    import atexit
    atexit.register(print, "at exit")
    threading.Timer(0.1, print, ["of a thread"]).start()
if "code" in sys.argv:
    sys.exit(7)
"""


@pytest.fixture
def look(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A command that is forked like those of mburst."""
    (tmp_path / "look.py").write_text(LOOK)
    command = [sys.executable, "-m", "look"]
    monkeypatch.setattr(forked_commands, "_COMMAND", command)
    monkeypatch.chdir(tmp_path)
    return command


def test_the_bound_of_a_slow_disk_is_that_of_the_test(look: list[str], tmp_path: Path) -> None:
    """A recorder whose rows wait for the disk reports that, as tests on a busy machine do not expect (conftest.py)."""
    (tmp_path / "look.py").write_text("from mburst.sql import disk; print(disk.SYNC_S)")
    assert subprocess.run(look, capture_output=True, text=True, check=True).stdout == f"{disk.SYNC_S}\n" == "60.0\n"


def run_both(monkeypatch: pytest.MonkeyPatch, command: list[str], **options: Any) -> list[tuple[int, str, str]]:
    """Returns the exit code, output and errors of a new interpreter, and of a fork."""
    ends = []
    for fresh in (True, False):
        with monkeypatch.context() as patch:
            patch.setattr(forked_commands._Commands, "are_fresh", fresh)
            process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options)
            output, errors = process.communicate("some input" if options.get("stdin") == subprocess.PIPE else None)
            ends.append((process.returncode, output, errors))
    return ends


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"stdin": subprocess.PIPE},
        {"stdin": subprocess.DEVNULL, "start_new_session": True},
        {"process_group": 0},
        {"env": {**os.environ, "MBURST_OTHER": "ü", "NO_COLOR": "1"}},
    ],
)
def test_a_fork_starts_like_a_new_interpreter(
    look: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, options: dict[str, Any]
) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_CORE)
    umask = os.umask(0o031)
    given = os.open(tmp_path / "given", os.O_CREAT | os.O_RDWR)
    resource.setrlimit(resource.RLIMIT_CORE, (0, hard))
    try:
        ends = run_both(monkeypatch, [*look, "input", "ü"], **options, pass_fds=[given])
    finally:
        resource.setrlimit(resource.RLIMIT_CORE, (soft, hard))
        os.umask(umask)
        os.close(given)
    (code, output, errors), forked = ends
    assert (code, errors) == (forked[0], forked[2]) == (0, "written\n")
    fresh, fork = (json.loads(text.splitlines()[0]) for text in (output, forked[1]))
    assert fork == fresh and fork["parent"] == os.getpid() and fork["given"] == [given]
    assert output.splitlines()[1:] == forked[1].splitlines()[1:]


@pytest.mark.parametrize("before", [["ip", "netns", "exec"], ["prlimit", "--nofile=77"]], ids=" ".join)
def test_a_fork_applies_the_prefix_of_its_command(
    look: list[str], monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest, before: list[str]
) -> None:
    """The fork is in the network namespace, with its /sys, and in a mount namespace of its own; or it may open fewer
    files."""
    begun: list[object] = []
    fork = forked_commands._CommandServer.fork
    monkeypatch.setattr(forked_commands._CommandServer, "fork", lambda *given: begun.append(1) or fork(*given))
    if before[0] == "ip":
        lab = request.getfixturevalue("lab")
        before = [*before, lab.far]
    (code, output, errors), forked = run_both(monkeypatch, [*before, *look])
    assert (code, errors, len(begun)) == (forked[0], forked[2], 1) == (0, "written\n", 1)
    fresh, fork_ = json.loads(output), json.loads(forked[1])
    assert fork_ == fresh and fork_["parent"] == os.getpid()
    if before[0] == "ip":
        assert sorted(fork_["interfaces"]) == ["lo", lab.b] and fork_["network"] != os.readlink("/proc/self/ns/net")
        assert sorted(os.listdir("/sys/class/net")) != ["lo", lab.b]
    else:
        assert fork_["limits"][resource.RLIMIT_NOFILE] == [77, 77]


@pytest.mark.parametrize("word", ["raise", "text", "interrupt", "kill", "thread", "code"])
def test_a_fork_ends_like_a_new_interpreter(look: list[str], monkeypatch: pytest.MonkeyPatch, word: str) -> None:
    fresh, forked = run_both(monkeypatch, [*look, word])
    assert forked[0] == fresh[0]
    assert forked[1].splitlines()[1:] == fresh[1].splitlines()[1:]
    assert forked[2].splitlines()[-1:] == fresh[2].splitlines()[-1:]  # the frames of a traceback differ


def test_commands_with_special_starts_are_not_forked(look: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Special are options of Python, variables that Python reads, a function to call before, and another namespace."""
    forks: list[object] = []
    monkeypatch.setattr(forked_commands._CommandServer, "fork", lambda *_: forks.append(1))
    run = {"capture_output": True, "check": True}
    subprocess.run([look[0], "-P", *look[1:]], **run, env={**os.environ, "PYTHONPATH": "."})
    subprocess.run(look, **run, env={**os.environ, "PYTHONIOENCODING": "ascii"})
    subprocess.run(look, **run, preexec_fn=lambda: None)
    subprocess.run(["env", *look], **run)
    assert not forks


def test_a_signal_reaches_a_fork(look: list[str]) -> None:
    process = subprocess.Popen([*look, "input"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    process.send_signal(signal.SIGTERM)
    assert process.wait(30) == -signal.SIGTERM
    process.communicate()
