"""Programs in Go for tests: those in tests/go, and those of the modules that they need."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

_INSTALLED = "/usr/local/go/bin/go"  # where go.dev/doc/install puts it, which not every PATH has
_UNREACHABLE = ("dial tcp", "proxy", "lookup", "i/o timeout")


def go_program(program: Path, sources: Path, package: str = ".") -> Path:
    """Build a package as PROGRAM, in the module that is in SOURCES. Skips the test, with the reason, where there is no
    Go or no module to be had."""
    if not (go := shutil.which("go") or shutil.which(_INSTALLED)):
        pytest.skip("there is no Go here: programs of others that speak gNMI are not tried")
    command = [go, "build", "-gcflags=all=-N -l", "-o", str(program), package]  # compiled once, run for seconds
    done = subprocess.run(command, cwd=sources, capture_output=True, text=True, timeout=300, check=False)
    if done.returncode and any(word in done.stderr for word in _UNREACHABLE):
        pytest.skip(f"Go cannot fetch its modules: {done.stderr.splitlines()[-1]}")
    assert done.returncode == 0, done.stderr
    return program
