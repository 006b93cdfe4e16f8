"""Programs in Go for tests: those in tests/go, and those of modules that they need."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

_INSTALLED = "/usr/local/go/bin/go"  # where go.dev/doc/install puts it; not every PATH has it
_UNREACHABLE = ("dial tcp", "proxy", "lookup", "i/o timeout")


def go_program(program: Path, sources: Path, package: str = ".") -> Path:
    """Builds a package as PROGRAM, in the module in SOURCES. Skips the test, with the reason, if there is no Go, or if
    the module is not available."""
    words = ["build", "-gcflags=all=-N -l -dwarf=false", "-o", str(program), package]  # compiled once, run for seconds
    _run(words, sources, {"CGO_ENABLED": "0"})
    return program


def go_installed(folder: Path, package: str, version: str) -> Path:
    """Returns the program of a third-party package, built in FOLDER. Skips the test in the same cases."""
    _run(["install", f"{package}@{version}"], folder, {"GOBIN": str(folder)})
    return folder / package.rpartition("/")[2]


def _run(words: list[str], folder: Path, environment: Mapping[str, str] | None = None) -> None:
    if not (go := shutil.which("go") or shutil.which(_INSTALLED)):
        pytest.skip("there is no Go here: programs of others that speak gNMI or OTLP are not tried")
    with _one_at_a_time():
        done = subprocess.run(
            [go, *words],
            cwd=folder,
            env={**os.environ, **(environment or {})},
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
    if done.returncode and any(word in done.stderr for word in _UNREACHABLE):
        pytest.skip(f"Go cannot fetch its modules: {done.stderr.splitlines()[-1]}")
    assert done.returncode == 0, done.stderr


@contextmanager
def _one_at_a_time() -> Iterator[None]:
    """Lets only one process build at a time: the next one reuses the compiled packages of Go itself, which take most of
    the time."""
    lock = os.open(Path(__file__).parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)
