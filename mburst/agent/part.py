"""One part of `mburst run` as a child process, which is restarted if it fails or hangs."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import TextIO

from ..messages import print_message
from ..names import shown
from ..process.alive import DESCRIPTOR
from ..process.python import command
from .config import RunPart
from .watchdog import SILENT_S, Watchdog

FIRST_WAIT_S, LONGEST_WAIT_S = 1.0, 60.0  # first and longest wait before a failed part is restarted
STEADY_S = 60.0  # a part that ran longer is restarted with the first wait
USAGE = 2


class PartProcess:
    """A part and, while it runs, its process. `ended` is set once it will not be started again."""

    def __init__(self, part: RunPart, environment: Mapping[str, str]) -> None:
        self.part = part
        self.environment = environment
        self.process: asyncio.subprocess.Process | None = None
        self.ending, self.ended = asyncio.Event(), asyncio.Event()
        self._watchdog: Watchdog | None = None

    async def keep(self) -> int:
        """Run the part, with restarts, until it is done or shall end. Returns 0, USAGE if it rejected its arguments, or
        else the code of a failure while it was ending."""
        try:
            return await self._keep()
        finally:
            self.ended.set()

    def end(self) -> None:
        """Send SIGTERM. The part is not restarted, whatever its exit code."""
        self.ending.set()
        if self.process:
            with suppress(ProcessLookupError):
                self.process.terminate()

    def kill(self) -> None:
        """Send SIGKILL if the process still runs."""
        if self.process:
            with suppress(ProcessLookupError):
                self.process.kill()

    def look(self) -> None:
        """Kill a process that hangs. Called every second."""
        if self._watchdog and self._watchdog.is_hung() and not self.ending.is_set():
            print_message(f"{self.part.name} has hung for {SILENT_S:g} s: killed")
            self.kill()

    async def _keep(self) -> int:
        wait = FIRST_WAIT_S
        while not self.ending.is_set():
            begun = time.monotonic()
            code = await self._once()
            if self.ending.is_set():
                if code and ending_signal(code) not in (signal.SIGTERM, signal.SIGINT):
                    print_message(f"{self.part.name} ended with {code}")
                    return code
                return 0
            if code == 0:
                return 0
            if code == USAGE:  # a restart would not help
                print_message(f"{self.part.name} ended ({code}) and is not restarted; the other parts continue")
                return code
            wait = FIRST_WAIT_S if time.monotonic() - begun > STEADY_S else wait
            number = ending_signal(code)
            ended = f"was ended by {name_of(number)}" if number else f"failed ({code})"
            print_message(f"{self.part.name} {ended}: restarting in {wait:g} s")
            with suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self.ending.wait(), wait)
            wait = min(2 * wait, LONGEST_WAIT_S)
        return 0

    async def _once(self) -> int:
        """Run one process from start to end, and return its exit code."""
        self._watchdog = Watchdog()
        try:
            return await self._process(self._watchdog)
        finally:
            self._watchdog.close()
            self.process = self._watchdog = None

    async def _process(self, watchdog: Watchdog) -> int:
        given = watchdog.given.fileno()
        # In its own process group: a terminal's Ctrl-C reaches only the supervisor, which then signals each part.
        self.process = child = await asyncio.create_subprocess_exec(
            *command("mburst.agent.child", str(os.getpid()), *self.part.argv),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env={**self.environment, "PYTHONUNBUFFERED": "1", DESCRIPTOR: str(given)},
            pass_fds=[given],
            process_group=0,
        )
        if self.ending.is_set():  # requested while the process was started
            child.terminate()
        assert child.stdout is not None and child.stderr is not None
        await asyncio.gather(
            _pass_on(self.part.name, child.stdout, sys.stdout), _pass_on(self.part.name, child.stderr, sys.stderr)
        )
        return await child.wait()


def ending_signal(code: int) -> int:
    """Returns the signal that ended a process with that exit code, 0 for none. A part that ends cleanly after a
    signal has 128 and its number (child.py)."""
    return -code if code < 0 else code - 128 if code > 128 else 0


def name_of(number: int) -> str:
    """Returns the name of a signal. Real-time signals have only a number."""
    return signal.Signals(number).name if number in set(signal.Signals) else f"signal {number}"


async def _pass_on(name: str, source: asyncio.StreamReader, to: TextIO) -> None:
    """Print each line of a part with the part's name before it."""
    while True:
        try:
            line = await source.readline()
        except ValueError:  # an overlong line, which readline has dropped
            line = b"(a line that is too long)\n"
        if not line:
            return
        with suppress(OSError):  # the disk of the log is full: parts continue
            print(f"{name}: {shown(line.decode(errors='replace').rstrip())}", file=to, flush=True)
