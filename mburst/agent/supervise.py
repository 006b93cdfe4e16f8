"""Runs parts as child processes: one that fails is started again, and all end together, in good order.

Each part is a process, so that a crash or a leak in one takes nothing from the others, and each ends as it would alone.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TextIO

from ..names import say, shown
from ..python import command
from ..stopping import stopping
from .config import RunPart

FIRST_WAIT_S, LONGEST_WAIT_S = 1.0, 60.0  # before a part that failed is started again
STEADY_S = 60.0  # after which a part counts as having run
STOP_S = 60.0  # for parts to end after a signal
IMPATIENT_S = 1.0
USAGE = 2


class Supervisor:
    """Runs parts until they are done or a signal comes."""

    def __init__(
        self, parts: Sequence[RunPart], stop_s: float = STOP_S, environment: Mapping[str, str] | None = None
    ) -> None:
        self.parts = parts
        self.environment = os.environ if environment is None else environment
        self.stop_s = stop_s
        self.children: dict[str, asyncio.subprocess.Process] = {}
        self.stopping = asyncio.Event()
        self.stopped_at = 0.0
        self.code = 0

    async def run(self) -> int:
        """0 when all parts are done or SIGTERM ended them, 130 for SIGINT, 1 where one had to be killed, 2 where one
        ended as wrongly called: what the file says was checked before, so that this is the part's trouble alone."""
        later = asyncio.get_running_loop().call_soon_threadsafe
        with stopping(lambda: later(self._stop), lambda number: later(self._hurry, number)) as ended_by:
            await self._run()
        return self.code or (130 if signal.SIGINT in ended_by[:1] else 0)

    async def _run(self) -> None:
        tasks = [asyncio.create_task(self._keep(part)) for part in self.parts]
        stop = asyncio.create_task(self.stopping.wait())
        pending = {*tasks}
        while pending and not self.stopping.is_set():
            done, _ = await asyncio.wait({*pending, stop}, return_when=asyncio.FIRST_COMPLETED)
            pending -= done
        stop.cancel()
        await self._end(tasks)

    def _stop(self) -> None:
        self.stopped_at = time.monotonic()
        self.stopping.set()

    def _hurry(self, number: signal.Signals) -> None:
        # A second Ctrl-C means at once. A second SIGTERM means nothing: some send one to each process of a group, and
        # one to the group. Nor does what comes with the first.
        if number == signal.SIGINT and time.monotonic() - self.stopped_at > IMPATIENT_S:
            for child in self.children.values():
                with suppress(ProcessLookupError):
                    child.kill()

    async def _end(self, tasks: Sequence[asyncio.Task[None]]) -> None:
        """SIGTERM to every part, and time for each to store what it has."""
        for child in self.children.values():
            with suppress(ProcessLookupError):
                child.terminate()
        _, late = await asyncio.wait(tasks, timeout=self.stop_s) if tasks else (set(), set())
        if not late:
            return
        self.code = 1
        for name, child in list(self.children.items()):
            say(f"{name} did not end in {self.stop_s:g} s: killed; stored rows are kept")
            with suppress(ProcessLookupError):
                child.kill()
        await asyncio.wait(late)

    async def _keep(self, part: RunPart) -> None:
        """Run a part until it is done."""
        wait = FIRST_WAIT_S
        while not self.stopping.is_set():
            begun = time.monotonic()
            code = await self._once(part)
            if self.stopping.is_set() or code in (0, 130):
                if code not in (0, 130, -signal.SIGTERM):
                    say(f"{part.name} ended with {code}")
                    self.code = self.code or 1
                return
            if code == USAGE:  # it will not get better
                say(f"{part.name} ended ({code}) and is not restarted; the other parts continue")
                self.code = self.code or USAGE
                return
            wait = FIRST_WAIT_S if time.monotonic() - begun > STEADY_S else wait
            ended = f"was ended by {signal.Signals(-code).name}" if code < 0 else f"failed ({code})"
            say(f"{part.name} {ended}: restarting in {wait:g} s")
            with suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self.stopping.wait(), wait)
            wait = min(2 * wait, LONGEST_WAIT_S)

    async def _once(self, part: RunPart) -> int:
        # In a group of its own: a terminal's Ctrl-C is for us, who then signal each part.
        child = await asyncio.create_subprocess_exec(
            *command("mburst.agent.child", str(os.getpid()), *part.argv),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env={**self.environment, "PYTHONUNBUFFERED": "1"},
            process_group=0,
        )
        self.children[part.name] = child
        if self.stopping.is_set():  # stopped while it was being started
            child.terminate()
        assert child.stdout is not None and child.stderr is not None
        await asyncio.gather(
            _pass_on(part.name, child.stdout, sys.stdout), _pass_on(part.name, child.stderr, sys.stderr)
        )
        code = await child.wait()
        del self.children[part.name]
        return code


async def _pass_on(name: str, source: asyncio.StreamReader, to: TextIO) -> None:
    """Each line of a part, with the part's name before it."""
    while True:
        try:
            line = await source.readline()
        except ValueError:  # longer than any line should be: readline has dropped it
            line = b"(a line that is too long)\n"
        if not line:
            return
        print(f"{name}: {shown(line.decode(errors='replace').rstrip())}", file=to, flush=True)
