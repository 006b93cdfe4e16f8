"""Forks the commands `python -m mburst` of tests from a process that has imported everything already: imports take
longer than most commands. A fork runs as a new interpreter does (command_server.py), and is a child of the process that
starts it, as far as that process can see.

Commands behind `ip netns exec` and `prlimit --nofile` are forked, too: the fork does the work of these programs. So is
tests/faults/rolling.py. New interpreters are started for commands that depend on them: in the files of FRESH, in tests
that have the machine to themselves, behind another prefix, with options of Python, with a function to call before, in
other namespaces, and if variables that are read at the start differ from those of the tests.
"""

from __future__ import annotations

import array
import ctypes
import itertools
import os
import pickle
import re
import resource
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from places import ROOT

from mburst.sql import disk

# Tests of rights, of folders that modules are imported from, of signals at the start, of peaks of memory, of
# /proc/PID/cmdline.
FRESH = re.compile(
    r"/tests/(rights/|(cli/test_stopping|telemetry/test_gnmi_limits|status/test_(status|configuration)|agent/test_secrets"
    r"|fleet/test_ship_verb)\.py)"
)
_READ_AT_START = re.compile(r"PYTHON|LC_|LANG|LD_|MALLOC|GLIBC|OPENBLAS|OMP_|ARROW|TZ$|PATH$|HOME$|XDG")
_COMMAND = [sys.executable, "-m", "mburst"]
_ROLLING = [sys.executable, str(ROOT / "tests" / "faults" / "rolling.py")]
_NAMESPACE = ["ip", "netns", "exec"]
_FILES = re.compile(r"--nofile=(\d+)")
_SET_CHILD_SUBREAPER = 36  # prctl(2)
_LIMITS = [getattr(resource, name) for name in dir(resource) if name.startswith("RLIMIT_") and name != "RLIMIT_OFILE"]
_libc = ctypes.CDLL(None)
_start = subprocess._fork_exec  # type: ignore[attr-defined]


def _whereabouts() -> list[object]:
    """Returns what a child inherits from its parent: process, users, namespaces, root."""
    links = (f"/proc/thread-self/ns/{name}" for name in ("net", "mnt", "user", "pid", "uts"))
    return [os.getpid(), os.getresuid(), os.getresgid(), *map(os.readlink, links), os.readlink("/proc/self/root")]


def _environ() -> Iterator[bytes]:
    """Yields the variables of this process, including those that libraries set and os.environ does not have."""
    pointers = ctypes.POINTER(ctypes.c_char_p).in_dll(_libc, "environ")
    return itertools.takewhile(lambda pair: pair is not None, map(pointers.__getitem__, itertools.count()))


class _CommandServer:
    """The process from which commands are forked."""

    def __init__(self) -> None:
        self.whereabouts = _whereabouts()
        self.environment = dict(os.environ)
        self._lock = threading.Lock()
        self._conn, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        program = Path(__file__).with_name("command_server.py")
        null = subprocess.DEVNULL
        with other:
            self._process = subprocess.Popen(
                [sys.executable, str(program), str(other.fileno())],
                **{"stdin": null, "stdout": null, "stderr": null, "cwd": "/", "pass_fds": [other.fileno()]},
            )

    def fork(self, order: dict[str, Any], descriptors: list[int]) -> int:
        """Returns the process in which the command was started: a child of this one."""
        with self._lock:
            _libc.prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0)  # orphans become children of this process for this time
            try:
                rights = (socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", descriptors))
                self._conn.sendmsg([pickle.dumps(order)], [rights])
                child = int(self._conn.recv(64))
                assert self._conn.recv(64) == b"begun"
                return child
            finally:
                _libc.prctl(_SET_CHILD_SUBREAPER, 0, 0, 0, 0)

    def end(self) -> None:
        self._conn.close()
        self._process.wait()


class _Commands:
    """The commands of this process; there is one instance."""

    server: _CommandServer | None = None
    are_fresh = False  # commands of the current test


class _Command(NamedTuple):
    """A command, without its prefixes."""

    words: list[str]
    namespace: str  # network namespace to enter; "": none
    files: int | None  # limit of open files

    @classmethod
    def parse(cls, words: list[str]) -> _Command:
        namespace, files = "", None
        while True:
            if words[:3] == _NAMESPACE and len(words) > 4:
                namespace, words = words[3], words[4:]
            elif words[:1] == ["prlimit"] and len(words) > 2 and (bound := _FILES.fullmatch(words[1])):
                files, words = int(bound[1]), words[2:]
            else:
                return cls(words, namespace, files)

    def is_ours(self) -> bool:
        return self.words[:3] == _COMMAND or self.words[:2] == _ROLLING


class _Start(NamedTuple):
    """The first arguments of subprocess._fork_exec."""

    words: list[Any]
    programs: tuple[bytes, ...]
    close_fds: bool
    kept: tuple[int, ...]
    cwd: Any
    env: list[bytes] | None
    stdin: int
    stdin_ours: int
    stdout_ours: int
    stdout: int
    stderr_ours: int
    stderr: int
    error_read: int
    error: int
    restore_signals: bool
    session: bool
    group: int
    gid: int | None
    groups: list[int] | None
    uid: int | None
    umask: int
    before: Callable[[], object] | None

    def environment(self) -> dict[str, str]:
        """Returns the os.environ of the command."""
        pairs = (os.fsdecode(pair).partition("=") for pair in (_environ() if self.env is None else self.env))
        return {name: value for name, _, value in pairs}

    def command(self) -> _Command:
        return _Command.parse([os.fsdecode(word) for word in self.words])

    def folder(self) -> str:
        return os.path.abspath(os.fsdecode(self.cwd or "."))

    def can_be_forked(self) -> bool:
        """Returns whether the command runs as it would in a new interpreter."""
        if _Commands.are_fresh or not self.command().is_ours() or self.before or not self.close_fds or self.umask != -1:
            return False
        if any(ids is not None for ids in (self.gid, self.groups, self.uid)) or not os.path.isdir(self.folder()):
            return False
        server = _Commands.server = _Commands.server or _CommandServer()
        ours, wanted = server.environment, self.environment()
        names = filter(_READ_AT_START.match, {*ours, *wanted})
        return all(ours.get(name) == wanted.get(name) for name in names) and server.whereabouts == _whereabouts()

    def order(self) -> tuple[dict[str, Any], list[int]]:
        """Returns the order for the server, and the descriptors of this process that the command uses."""
        streams = [given if given != -1 else own for own, given in enumerate((self.stdin, self.stdout, self.stderr))]
        passed = [number for number in self.kept if number != self.error]
        os.umask(umask := os.umask(0))
        command = self.command()
        limits = {number: resource.getrlimit(number) for number in _LIMITS}
        if command.files is not None:
            limits[resource.RLIMIT_NOFILE] = (command.files, command.files)
        order = {
            "parent": os.getpid(),
            "words": command.words,
            "namespace": command.namespace,
            "descriptors": [0, 1, 2, *passed],
            "cwd": self.folder(),
            "env": self.environment(),
            "session": self.session,
            "group": self.group,
            "limits": limits,
            "umask": umask,
            "sync_s": disk.SYNC_S,
        }
        return order, [*streams, *passed]


def _begin(*given: Any) -> int:
    """Like subprocess._fork_exec: returns the started process."""
    wanted = _Start(*given[: len(_Start._fields)])
    if not wanted.can_be_forked() or _Commands.server is None:
        return int(_start(*given))
    return _Commands.server.fork(*wanted.order())


@pytest.fixture(scope="session", autouse=True)
def forked_commands() -> Iterator[None]:
    """During the block, commands of mburst that this process starts are forked."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(subprocess, "_fork_exec", _begin)
        patch.setattr(subprocess, "_USE_POSIX_SPAWN", False)  # which Python 3.13 would call in its place
        yield
    if _Commands.server:
        _Commands.server.end()


@pytest.fixture(autouse=True)
def fresh_commands(request: pytest.FixtureRequest) -> None:
    """Starts new interpreters if FRESH has the file of the test, or if a test compares times: pages of memory that a
    fork shares are copied at its first write to them, which takes time."""
    compares = any(request.node.get_closest_marker(mark) for mark in ("alone", "timed"))
    _Commands.are_fresh = compares or bool(FRESH.search(str(request.path)))
