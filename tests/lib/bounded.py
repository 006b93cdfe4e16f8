"""No test waits without end for a program. One that has not ended after LIMIT_S is killed, and the test fails with what
the program has printed: this applies to `subprocess.run`, to `wait` and `communicate` of Popen without a timeout, and
to `next_line`. Tests marked `packages`, whose programs take minutes, are not bounded.
"""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, Any, AnyStr

import pytest

LIMIT_S = 300.0  # no program of a test comes near
_PIPES_S = 5.0  # for what is left in its pipes: a child of the program may still have them open
_wait, _communicate = subprocess.Popen.wait, subprocess.Popen.communicate


class _Bound:
    """The bound of the current test; there is one instance."""

    seconds: float | None = LIMIT_S


def _printed(process: subprocess.Popen[Any]) -> str:
    """Returns what a killed program has printed, as far as nobody has read it."""
    try:
        parts = _communicate(process, timeout=_PIPES_S)
    except subprocess.TimeoutExpired as error:
        parts = error.stdout, error.stderr
    except ValueError:  # the test has closed its pipes
        parts = ()
    texts = (part.decode(errors="replace") if isinstance(part, bytes) else part for part in parts if part)
    return "".join(texts) or "nothing"


@contextmanager
def _killing(process: subprocess.Popen[Any], seconds: float | None) -> Iterator[None]:
    """Kills the program if the block times out after SECONDS, and fails."""
    try:
        yield
    except subprocess.TimeoutExpired:
        process.kill()
        message = f"{process.args} did not end within {seconds:g} s; it printed: {_printed(process)}"
        raise AssertionError(message)  # noqa: B904  within a failure, that is printed, too


def _bounded_wait(self: subprocess.Popen[Any], timeout: float | None = None) -> int:
    if timeout is not None:
        return _wait(self, timeout)
    with _killing(self, _Bound.seconds):
        return _wait(self, _Bound.seconds)


def _bounded_communicate(self: subprocess.Popen[Any], input: Any = None, timeout: float | None = None) -> Any:
    if timeout is not None:
        return _communicate(self, input, timeout)
    if [self.stdin, self.stdout, self.stderr].count(None) == 2:  # read at once, with what Python has buffered
        return _communicate_with_one(self, input)
    with _killing(self, _Bound.seconds):
        return _communicate(self, input, _Bound.seconds)


def _communicate_with_one(process: subprocess.Popen[Any], input: Any) -> Any:
    """`communicate` without a timeout, for a program with one pipe. It ends once nobody has the pipe open."""
    with _killer(process) as killed:
        parts = _communicate(process, input)
    assert not killed.is_set(), f"{process.args} did not end within {_Bound.seconds:g} s; it printed: {parts}"
    return parts


@contextmanager
def _killer(process: subprocess.Popen[Any]) -> Iterator[threading.Event]:
    """Kills the program if the block takes longer than the bound; then the event is set."""
    killed = threading.Event()

    def kill() -> None:
        killed.set()
        process.kill()

    killer = threading.Timer(_Bound.seconds or threading.TIMEOUT_MAX, kill)
    killer.daemon = True
    killer.start()
    try:
        yield killed
    finally:
        killer.cancel()


def next_line(process: subprocess.Popen[AnyStr], stream: IO[AnyStr] | None = None) -> AnyStr:
    """Returns the next line that the program prints on STREAM, by default its standard output. Fails if it ends without
    one, and nobody has the stream open any more."""
    source = stream or process.stdout
    assert source is not None
    with _killer(process):
        line = source.readline()
    if not line:
        code = process.wait()
        raise AssertionError(f"{process.args} ended with {code} before its line; it printed: {_printed(process)}")
    return line


@pytest.fixture(scope="session", autouse=True)
def bounded_waits() -> Iterator[None]:
    """During the block, waits for programs that this process starts are bounded."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(subprocess.Popen, "wait", _bounded_wait)
        patch.setattr(subprocess.Popen, "communicate", _bounded_communicate)
        yield


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Sets the bound before any fixture of the test begins."""
    _Bound.seconds = None if item.get_closest_marker("packages") else LIMIT_S
