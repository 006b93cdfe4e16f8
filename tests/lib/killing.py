"""Processes that die (SIGKILL) just before their Nth call of a function that changes files.

A test program forks such workers: `serve` reads orders, lines of JSON, and answers each with a line of JSON. The test
that starts the program has a `Killer`. The death of a worker affects nothing else, and modules that are slow to import
are imported once.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from forking import end_if_it_hangs
from places import ROOT

from mburst.process.python import without_pandas


class Steps:
    """Counts calls; the one that reaches `limit` is not executed."""

    def __init__(self) -> None:
        self.made = 0
        self.limit: int | None = None
        self._lock = threading.Lock()

    def watch(self, owner: Any, *names: str) -> None:
        """Counts calls of OWNER's functions."""
        for name in names:
            self._watch(owner, name, getattr(owner, name))

    def _watch(self, owner: Any, name: str, original: Callable[..., Any]) -> None:
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            with self._lock:
                self.made += 1
                if self.made == self.limit:
                    os.kill(os.getpid(), signal.SIGKILL)
            return original(*args, **kwargs)

        setattr(owner, name, wrapped)


def serve(work: Callable[[dict[str, Any], int], int], answer: Callable[[bytes], dict[str, Any]]) -> None:
    """For each order, runs WORK in a fork, with the order and a descriptor for its output; WORK returns the exit code.
    An order with `seconds` is killed after that time. ANSWER turns the output into a part of the answer."""
    without_pandas()
    for line in sys.stdin:
        order = json.loads(line)
        hear, write_end = os.pipe()
        if (child := os.fork()) == 0:
            end_if_it_hangs()
            os.close(hear)
            code = 1
            try:
                code = work(order, write_end)
            finally:
                sys.stderr.flush()
                os._exit(code)
        os.close(write_end)
        if "seconds" in order:
            time.sleep(order["seconds"])
            os.kill(child, signal.SIGKILL)
        with os.fdopen(hear, "rb") as pipe:
            content = pipe.read()
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        print(json.dumps({"killed": code == -signal.SIGKILL, "code": code, **answer(content)}), flush=True)


class Killer:
    """A test program that serves orders."""

    def __init__(self, program: Path) -> None:
        path = os.pathsep.join([str(ROOT), str(ROOT / "tests" / "lib")])
        self.process = subprocess.Popen(
            [sys.executable, str(program)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": path},
        )

    def order(self, **order: Any) -> dict[str, Any]:
        """Has an order executed. Returns the answer."""
        assert self.process.stdin and self.process.stdout
        self.process.stdin.write(json.dumps({"step": None, **order}) + "\n")
        self.process.stdin.flush()
        answer: dict[str, Any] = json.loads(self.process.stdout.readline())
        return answer


@contextmanager
def serving(program: Path) -> Iterator[Killer]:
    """Runs PROGRAM during the block."""
    killer = Killer(program)
    try:
        yield killer
    finally:
        assert killer.process.stdin
        killer.process.stdin.close()
        killer.process.wait(10)


@contextmanager
def memory_folder() -> Iterator[Path]:
    """Yields a folder in memory if possible: hundreds of seals with their fsyncs take minutes on a disk."""
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="mburst-test-", dir=memory) as folder:
        yield Path(folder)
