"""`mburst top` on a terminal, and without one."""

from __future__ import annotations

import builtins
import fcntl
import os
import pty
import re
import select
import shlex
import signal
import socket
import struct
import sys
import tempfile
import termios
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import ClassVar

import pytest
from livestore import filled
from processes import is_stopped
from waiting import wait_for

from mburst.__main__ import main
from mburst.cli import top
from mburst.errors import MburstError

PATIENCE_S = 60
TOP = (sys.executable, "-m", "mburst", "top")


class Terminal:
    """Runs a program on a terminal of 100 × 30."""

    running: ClassVar[list[int]] = []  # the programs that nobody has waited for

    def __init__(self, *command: str) -> None:
        self.pid, self._file = pty.fork()
        if not self.pid:
            os.execvpe(command[0], command, {**os.environ, "TERM": "xterm-256color", "PYTHONIOENCODING": "utf-8"})
        self.running.append(self.pid)
        self.text = ""
        self.resize(100)

    def resize(self, width: int) -> None:
        """Gives the terminal WIDTH columns: the program redraws."""
        fcntl.ioctl(self._file, termios.TIOCSWINSZ, struct.pack("HHHH", 30, width, 0, 0))

    def read(self) -> bool:
        """Reads the available output. Returns whether more can come."""
        if select.select([self._file], [], [], 0.2)[0]:
            try:
                taken = os.read(self._file, 1 << 16)
            except OSError:  # EIO: no process has the other end any more
                return False
            self.text += re.sub(r"\x1b\[[0-9;?<>=]*[a-zA-Z]", "", taken.decode(errors="replace"))
        return True

    def wait_for(self, pattern: str, meanwhile: Callable[[], object] = lambda: None) -> None:
        until = time.monotonic() + PATIENCE_S
        while not re.search(pattern, self.text):
            meanwhile()
            assert self.read() and time.monotonic() < until, self.text

    def press(self, keys: str) -> None:
        os.write(self._file, keys.encode())

    def stall(self) -> None:
        """Fills the terminal, and makes the program draw more than it keeps (textual: 30 writes)."""
        its_end = os.open(f"/proc/{self.pid}/fd/0", os.O_WRONLY | os.O_NOCTTY | os.O_NONBLOCK)
        while select.select([], [its_end], [], 0.2)[1]:
            with suppress(BlockingIOError):  # also while the program writes
                os.write(its_end, b"x" * 64)
        os.close(its_end)
        for width in (90, 100) * 40:
            self.resize(width)
            time.sleep(0.05)

    def end(self) -> int:
        """Returns the exit code once the program has ended by itself."""
        until = time.monotonic() + PATIENCE_S
        while self.read() and time.monotonic() < until:
            pass
        os.close(self._file)
        return self.exit_code()

    def close(self) -> int:
        """Returns the exit code once the terminal is closed: the kernel sends SIGHUP."""
        os.close(self._file)
        return self.exit_code()

    def exit_code(self) -> int:
        """Returns the exit code of the program, which ends soon."""
        ended: list[int] = []

        def has_ended() -> bool:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            ended.append(status)
            return pid != 0

        wait_for(has_ended, f"the end of {self.text[-1000:]}", PATIENCE_S)
        self.running.remove(self.pid)
        return os.waitstatus_to_exitcode(ended[-1])


@pytest.fixture(autouse=True)
def nothing_runs_on() -> Iterator[None]:
    """Ends the programs of a test that has failed."""
    yield
    for pid in Terminal.running:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    Terminal.running.clear()


@pytest.fixture(scope="module")
def store(tmp_path_factory) -> Path:
    return filled(tmp_path_factory.mktemp("top") / "store").path


def test_a_store_is_drawn_until_a_signal(store):
    terminal = Terminal(*TOP, str(store))
    terminal.wait_for("4 senders .incast.: 10.0.0.1 25 %")
    assert "cache-1 eth0 inbound" in terminal.text and "2026-11-21 02:34:20.000 UTC, following" in terminal.text
    os.kill(terminal.pid, signal.SIGTERM)
    assert terminal.end() == 0


def test_an_interface_is_recorded_while_it_is_shown(lab):
    before = set(Path(tempfile.gettempdir()).glob("mburst-live-*"))
    terminal = Terminal("ip", "netns", "exec", lab.far, *TOP, lab.b, "--link", "1G", "--host", "far")
    terminal.wait_for("no packet dropped by the recorder so far|nothing is recorded yet")
    with lab.inside(lab.near):
        sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    with sender:
        terminal.wait_for(
            f"far {lab.b} inbound[^%]*[1-9][.0-9]* %", lambda: sender.sendto(bytes(1400), ("10.9.0.2", 9))
        )
    terminal.press("q")
    assert terminal.end() == 0 and "a temporary store, removed now" in terminal.text
    assert set(Path(tempfile.gettempdir()).glob("mburst-live-*")) <= before


def test_a_terminal_that_is_closed_leaves_no_store(lab, tmp_path, monkeypatch):
    """The store has the addresses of everyone who communicated."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    terminal = Terminal("ip", "netns", "exec", lab.far, *TOP, lab.b)
    terminal.wait_for("no packet dropped by the recorder so far|nothing is recorded yet")
    assert list(tmp_path.glob("mburst-live-*/mburst.json"))
    assert terminal.close() == 0 and list(tmp_path.iterdir()) == []


def test_a_terminal_that_stalled_and_is_closed_ends_the_view(store):
    """As that of an ssh session without a network, which ends after hours."""
    terminal = Terminal(*TOP, str(store))
    terminal.wait_for("4 senders .incast.")
    terminal.stall()
    assert terminal.close() == 0


def test_a_signal_ends_the_view_on_a_terminal_that_stalled(store):
    terminal = Terminal(*TOP, str(store))
    terminal.wait_for("4 senders .incast.")
    terminal.stall()
    os.kill(terminal.pid, signal.SIGTERM)
    assert terminal.exit_code() == 0


def test_a_signal_ends_the_recording_on_a_terminal_that_stalled(lab, tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    terminal = Terminal("ip", "netns", "exec", lab.far, *TOP, lab.b)
    terminal.wait_for("no packet dropped by the recorder so far|nothing is recorded yet")
    terminal.stall()
    os.kill(terminal.pid, signal.SIGTERM)
    assert terminal.exit_code() == 0 and list(tmp_path.iterdir()) == []


def test_a_terminal_that_is_closed_ends_a_view_that_ignores_hangups(store):
    ignoring = "import signal; signal.signal(signal.SIGHUP, signal.SIG_IGN); import mburst.__main__ as m; m.entry()"
    terminal = Terminal(sys.executable, "-c", ignoring, "top", str(store))
    terminal.wait_for("4 senders .incast.")
    assert terminal.close() == 0


SAYS_THREADS = (
    "import os, signal, threading; "
    "names = lambda: sorted(t.name for t in threading.enumerate() if t.name.startswith('textual')); "
    "signal.signal(signal.SIGUSR1, lambda *_: os.write(2, f'threads: {names()}'.encode())); "
    "import mburst.__main__ as m; m.entry()"
)


def one_terminal(terminal: Terminal, pid: int) -> None:
    """Checks the threads of the program, and ends it by a key."""
    terminal.wait_for("4 senders .incast.")
    os.kill(pid, signal.SIGUSR1)
    terminal.wait_for(r"threads: \['textual-input', 'textual-output'\]")
    terminal.press("q")
    assert terminal.end() == 0


@pytest.mark.parametrize("before", [None, signal.SIGTSTP, signal.SIGSTOP])
def test_a_view_that_continues_has_the_threads_of_one_terminal(before, store):
    """SIGTSTP does not stop a program that no shell could continue."""
    terminal = Terminal(sys.executable, "-c", SAYS_THREADS, "top", str(store))
    for _ in range(3):
        terminal.wait_for("4 senders .incast.")
        if before:
            os.kill(terminal.pid, before)
        if before == signal.SIGSTOP:
            wait_for(lambda: terminal.read() and is_stopped(terminal.pid), "its stop")
        terminal.text = ""
        os.kill(terminal.pid, signal.SIGCONT)
    one_terminal(terminal, terminal.pid)


def test_a_view_that_a_shell_stops_and_continues(store):
    command = shlex.join([sys.executable, "-c", SAYS_THREADS, "top", str(store)])
    terminal = Terminal("bash", "-c", f"set -m; {command}; fg; fg; fg")
    for _ in range(3):
        terminal.wait_for("4 senders .incast.")
        [pid] = map(int, Path(f"/proc/{terminal.pid}/task/{terminal.pid}/children").read_text().split())
        terminal.text = ""
        os.kill(pid, signal.SIGTSTP)  # the shell continues it by `fg`
    one_terminal(terminal, pid)


def test_a_signal_ends_a_stalled_view_that_was_to_stop(store):
    terminal = Terminal("bash", "-c", f"set -m; {shlex.join([*TOP, str(store)])}; exit $?")  # 148: stopped
    terminal.wait_for("4 senders .incast.")
    [pid] = map(int, Path(f"/proc/{terminal.pid}/task/{terminal.pid}/children").read_text().split())
    terminal.stall()
    os.kill(pid, signal.SIGTSTP)
    time.sleep(0.5)
    os.kill(pid, signal.SIGTERM)
    assert terminal.exit_code() == 0


@pytest.mark.parametrize("after_s", [0, 0.05, 0.1])
def test_a_view_that_stops_as_its_terminal_is_closed_ends(after_s, store):
    terminal = Terminal(*TOP, str(store))
    terminal.wait_for("4 senders .incast.")
    os.kill(terminal.pid, signal.SIGTSTP)
    time.sleep(after_s)
    assert terminal.close() == 0


def test_the_view_is_drawn_on_standard_output(store, tmp_path):
    """Its errors can be kept apart."""
    terminal = Terminal("sh", "-c", f'exec "$@" 2>{tmp_path}/errors', "sh", *TOP, str(store))
    terminal.wait_for("4 senders .incast.")
    terminal.press("q")
    assert terminal.end() == 0 and (tmp_path / "errors").read_text() == ""


def test_the_error_without_a_terminal_states_what_to_do(store, capsys):
    assert main(["top", str(store)]) == 1
    assert "the view needs a terminal (`mburst live` shows the same in a browser" in capsys.readouterr().err


class _Screen:
    """The parts of a terminal that are used."""

    def __init__(self, encoding: str = "utf-8") -> None:
        self.encoding = encoding

    def isatty(self) -> bool:
        return True

    def flush(self) -> None:
        """Does nothing: there is no buffer."""


def on_terminal(monkeypatch, encoding="utf-8"):
    """Replaces stdin and stdout by terminals. To be called within a test, because pytest sets files of its own before
    and after it."""
    monkeypatch.setattr(sys, "stdin", _Screen())
    monkeypatch.setattr(sys, "stdout", _Screen(encoding))
    monkeypatch.setenv("TERM", "xterm")


def test_terminals_that_cannot_draw_are_refused(monkeypatch):
    on_terminal(monkeypatch)
    top.check_terminal()
    on_terminal(monkeypatch, "ascii")
    with pytest.raises(MburstError, match="an output in ascii has no blocks"):
        top.check_terminal()
    monkeypatch.setenv("TERM", "dumb")
    with pytest.raises(MburstError, match="TERM is dumb"):
        top.check_terminal()


def test_the_missing_extra_is_named(monkeypatch):
    real = builtins.__import__

    def without(name, *rest):
        if name == "textual":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(MburstError) as raised:
        top.check_terminal()
    assert "textual is not installed" in str(raised.value) and raised.value.hint == "pip install 'mburst[top]'"


def test_an_input_that_is_neither_store_nor_interface_is_one_line(monkeypatch, tmp_path, store, capsys):
    on_terminal(monkeypatch)
    for words, code, said in (
        ([tmp_path], 1, "not an mburst store"),
        (["no-such-interface"], 1, "neither a store nor an interface"),
        ([store, "--duration", "3s"], 2, "is a store"),
    ):
        assert main(["top", *map(str, words)]) == code
        assert said in capsys.readouterr().err
