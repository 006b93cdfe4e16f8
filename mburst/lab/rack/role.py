"""A program of the rack: a separate Python process with one task, controlled and read through pipes.

The owner closes the program's standard input to stop it, so no program outlives its owner. Standard output has one
"ready" line and then results, one JSON value per line.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ...process.python import command
from .errors import RackFailed

RLIMIT_RTTIME = 15  # µs of CPU that a real-time process may use without sleeping; asm-generic/resource.h
RTTIME_US = (1_000_000, 1_000_000)  # its soft and hard limit
_PACKAGE_PARENT = str(Path(__file__).resolve().parents[3])


def python_command(module: str, *arguments: str) -> list[str]:
    """Returns the command that runs a module of this package."""
    return command(f"mburst.lab.rack.{module}", *arguments)


def python_environment() -> dict[str, str]:
    """Returns an environment in which that command finds this package, installed or not."""
    path = os.pathsep.join(filter(None, [_PACKAGE_PARENT, os.environ.get("PYTHONPATH")]))
    return {**os.environ, "PYTHONPATH": path}


class Role:
    """The owner's side. `limit_s` limits the program's life in any case."""

    def __init__(self, module: str, limit_s: float, **config: Any) -> None:
        self.module = module
        self._process = subprocess.Popen(
            python_command(module, json.dumps({**config, "limit_s": limit_s})),
            env=python_environment(),
            text=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )

    def wait_ready(self) -> None:
        """Wait until the program has begun its task. Raises RackFailed if it ended before."""
        assert self._process.stdout
        if self._process.stdout.readline() != "ready\n":
            self._fail()

    def results(self) -> Iterator[Any]:
        """Yields what the program reports, until it ends. Raises RackFailed if it failed."""
        assert self._process.stdout
        for line in self._process.stdout:
            yield json.loads(line)
        if self._process.wait():
            self._fail()

    def stop(self) -> list[Any]:
        """Stop the program, and return its reports that were not read yet."""
        assert self._process.stdin
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        return list(self.results())

    def close(self) -> None:
        """End the program now, whatever it does. Repeating it is harmless."""
        self._process.kill()
        self._process.wait()
        for file in (self._process.stdin, self._process.stdout, self._process.stderr):
            if file is not None:
                with contextlib.suppress(BrokenPipeError):
                    file.close()

    def _fail(self) -> None:
        assert self._process.stderr
        words = self._process.stderr.read().strip().splitlines()
        code = self._process.wait()
        if code == -signal.SIGALRM:
            raise RackFailed(f"rack: {self.module} did not finish in time")
        raise RackFailed(f"rack: {self.module} failed: {words[-1] if words else f'exit code {code}'}")


def begin() -> dict[str, Any]:
    """The program's side: returns its task. From now on its life is limited."""
    config: dict[str, Any] = json.loads(sys.argv[1])
    signal.setitimer(signal.ITIMER_REAL, config["limit_s"])
    return config


def report(value: Any) -> None:
    """Report a result to the owner."""
    print(json.dumps(value), flush=True)


def ready() -> None:
    """Report to the owner that the task begins."""
    print("ready", flush=True)


def stop_requested(timeout_s: float = 0) -> bool:
    """Whether the owner has closed standard input, or does so within the time."""
    return bool(select.select([sys.stdin], [], [], timeout_s)[0])


def go_real_time(priority: int = 2) -> None:
    """If allowed, run before ordinary processes and those that measure (verbs.py), but never for more than a second
    without a pause."""
    with contextlib.suppress(OSError):
        resource.setrlimit(RLIMIT_RTTIME, RTTIME_US)
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(priority))
