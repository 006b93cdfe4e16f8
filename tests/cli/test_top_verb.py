"""`mburst top` on a terminal, and without one."""

from __future__ import annotations

import builtins
import fcntl
import os
import pty
import re
import select
import signal
import socket
import struct
import sys
import tempfile
import termios
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from livestore import filled

from mburst.__main__ import main
from mburst.cli import top
from mburst.errors import MburstError

PATIENCE_S = 60


class Terminal:
    """Runs a program on a terminal of 100 × 30."""

    def __init__(self, *command: str) -> None:
        self.pid, self._file = pty.fork()
        if not self.pid:
            os.execvpe(command[0], command, {**os.environ, "TERM": "xterm-256color", "PYTHONIOENCODING": "utf-8"})
        fcntl.ioctl(self._file, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 100, 0, 0))
        self.text = ""

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

    def end(self) -> int:
        """Returns the exit code once the program has ended by itself."""
        until = time.monotonic() + PATIENCE_S
        while self.read() and time.monotonic() < until:
            pass
        os.close(self._file)
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])

    def close(self) -> int:
        """Returns the exit code once the terminal is closed: the kernel sends SIGHUP."""
        os.close(self._file)
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


@pytest.fixture(scope="module")
def store(tmp_path_factory) -> Path:
    return filled(tmp_path_factory.mktemp("top") / "store").path


def test_a_store_is_drawn_until_a_signal(store):
    terminal = Terminal(sys.executable, "-m", "mburst", "top", str(store))
    terminal.wait_for("4 senders .incast.: 10.0.0.1 25 %")
    assert "cache-1 eth0 inbound" in terminal.text and "2026-11-21 02:34:20.000 UTC, following" in terminal.text
    os.kill(terminal.pid, signal.SIGTERM)
    assert terminal.end() == 0


def test_an_interface_is_recorded_while_it_is_shown(lab):
    before = set(Path(tempfile.gettempdir()).glob("mburst-live-*"))
    command = [sys.executable, "-m", "mburst", "top", lab.b, "--link", "1G", "--host", "far"]
    terminal = Terminal("ip", "netns", "exec", lab.far, *command)
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
    terminal = Terminal("ip", "netns", "exec", lab.far, sys.executable, "-m", "mburst", "top", lab.b)
    terminal.wait_for("no packet dropped by the recorder so far|nothing is recorded yet")
    assert list(tmp_path.glob("mburst-live-*/mburst.json"))
    assert terminal.close() == 0 and list(tmp_path.iterdir()) == []


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
    assert "textual, which is not installed" in str(raised.value) and raised.value.hint == "pip install 'mburst[top]'"


def test_an_input_that_is_neither_store_nor_interface_is_one_line(monkeypatch, tmp_path, store, capsys):
    on_terminal(monkeypatch)
    for words, code, said in (
        ([tmp_path], 1, "not an mburst store"),
        (["no-such-interface"], 1, "neither a store nor an interface"),
        ([store, "--duration", "3s"], 2, "is a store"),
    ):
        assert main(["top", *map(str, words)]) == code
        assert said in capsys.readouterr().err
