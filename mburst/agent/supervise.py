"""Runs parts as child processes. A part that fails or hangs is restarted, and all parts end together, in order.

Each part is a separate process, so that a crash or a leak in one does not affect the others, and each ends as it would
alone.
"""

from __future__ import annotations

import asyncio
import os
import signal
import threading
import time
from collections.abc import Callable, Mapping, Sequence

from ..errors import MburstError
from ..messages import print_message
from ..names import shown
from ..process.stopping import exit_code, reloading, stopping
from .beside import beside
from .config import RunPart
from .part import USAGE, PartProcess
from .systemd import MINE, ServiceManager

STOP_S = 60.0  # time for parts to end after a signal
IMPATIENT_S = 1.0
LOOK_S = 1.0
CHECKS_S = 60.0  # time for reading the file again and for all checks of its parts
Reading = tuple[Sequence[RunPart], Mapping[str, str]]  # the parts of a file, and the environment of their processes


class Supervisor:
    """Runs parts until they are done or a signal arrives. On SIGHUP, `reread` returns the present parts; `check` raises
    MburstError if a new or changed one could not start. Both run in a thread, because they may wait for a server or for
    a process."""

    def __init__(
        self,
        parts: Sequence[RunPart],
        stop_s: float = STOP_S,
        environment: Mapping[str, str] | None = None,
        reread: Callable[[], Reading] | None = None,
        check: Callable[[RunPart, Mapping[str, str]], None] = lambda part, environment: None,
    ) -> None:
        self.parts = parts
        self.reread, self.check = reread, check
        self.manager = ServiceManager()
        self.environment = _for_parts(os.environ if environment is None else environment)
        self.stop_s = stop_s
        self.running: dict[str, PartProcess] = {}  # those that shall run, by name
        self.unended: dict[PartProcess, None] = {}  # those, and the removed and replaced ones, in order of their starts
        self.done: dict[str, RunPart] = {}  # parts that finished by themselves; they are not restarted
        self.rejected: dict[str, RunPart] = {}  # parts that rejected their arguments; a reload starts them again
        self.tasks: set[asyncio.Task[None]] = set()
        self.woken, self.stopping, self.reload = asyncio.Event(), False, False
        self.reloading: asyncio.Task[None] | None = None
        self.stopped_at = 0.0
        self.code = 0

    async def run(self) -> int:
        """Returns the exit code: 0 if all parts finished or SIGTERM or SIGHUP ended them, 130 after SIGINT, 1 if a part
        had to be killed, 2 if a part rejected its arguments (the file was validated before, so only that part is
        affected)."""
        later = asyncio.get_running_loop().call_soon_threadsafe
        with (
            stopping(lambda: later(self._stop), lambda number: later(self._hurry, number)) as ended_by,
            reloading(lambda: later(self._ask_to_reload)),
        ):
            await self._run()
        return self.code or exit_code(ended_by)

    async def _run(self) -> None:
        for part in self.parts:
            self._start(part)
        self.manager.ready()
        while (self.tasks or self.reloading) and not self.stopping:
            await self._look()
        if self.reloading:
            self.reloading.cancel()
        self.manager.stopping()
        await self._end()

    async def _look(self) -> None:
        """Do what is due once a second, or as soon as a part ends or a signal arrives."""
        if self.reload and not self.reloading:
            self.reload = False
            self.reloading = asyncio.create_task(self._reload())
            self.reloading.add_done_callback(self._reloaded)
        for one in self.running.values():
            one.look()
        alive = sum(one.process is not None for one in self.running.values())
        self.manager.status(f"{alive} of {len(self.running)} parts run")
        self.manager.beat()
        woken = asyncio.create_task(self.woken.wait())
        done, _ = await asyncio.wait({*self.tasks, woken}, timeout=LOOK_S, return_when=asyncio.FIRST_COMPLETED)
        woken.cancel()
        self.woken.clear()
        for task in done - {woken}:
            self.tasks.discard(task)
            task.result()

    def _start(self, part: RunPart) -> None:
        """Run a part, beginning when all earlier ones of its name have ended."""
        earlier = [one for one in self.unended if one.part.name == part.name]
        one = self.running[part.name] = PartProcess(part, self.environment)
        self.unended[one] = None
        self.done.pop(part.name, None)
        self.rejected.pop(part.name, None)
        self.tasks.add(asyncio.create_task(self._keep(one, earlier)))

    async def _keep(self, one: PartProcess, earlier: Sequence[PartProcess]) -> None:
        for other in earlier:
            await other.ended.wait()
        code = await one.keep()
        self.code = self.code or (code if code == USAGE else 1 if code else 0)
        del self.unended[one]
        if self.running.get(one.part.name) is one:
            del self.running[one.part.name]
            if code in (0, USAGE):
                (self.rejected if code else self.done)[one.part.name] = one.part

    # --- reloading the file ---

    def _ask_to_reload(self) -> None:
        self.reload = True
        self.woken.set()

    def _reloaded(self, task: asyncio.Task[None]) -> None:
        self.reloading = None
        self.woken.set()

    async def _reload(self) -> None:
        """End removed parts, start new ones, and restart changed ones. After any error, all parts continue."""
        if self.reread is None:
            return
        self.manager.reloading()
        known = {**self.rejected, **self.done, **{name: one.part for name, one in self.running.items()}}
        try:
            async with asyncio.timeout(CHECKS_S):
                parts, environment = await beside(lambda given_up: self._checked(known, given_up))
        except TimeoutError:
            _not_reloaded(f"its checks took longer than {CHECKS_S:g} s")
        except MburstError as error:
            _not_reloaded(f"{error}" + (f" ({error.hint})" if error.hint else ""))
        except OSError as error:
            _not_reloaded(f"{shown(str(error.filename or 'a file'))}: {error.strerror or 'cannot be read'}")
        except Exception as error:  # unforeseen: its text may contain a secret
            _not_reloaded(f"internal error: {type(error).__name__}")
        else:
            self.environment = _for_parts(environment)
            self._replace({part.name: part for part in parts})
        self.manager.ready()

    def _checked(self, known: Mapping[str, RunPart], given_up: threading.Event) -> Reading:
        """Returns the present parts and environment, once each part that is not among the KNOWN ones is checked."""
        assert self.reread is not None
        parts, environment = self.reread()
        for part in parts:
            if part != known.get(part.name) and not given_up.is_set():
                self.check(part, environment)
        return parts, environment

    def _replace(self, wanted: Mapping[str, RunPart]) -> None:
        before = {name: one.part for name, one in self.running.items()}
        gone = [name for name in before if name not in wanted]
        changed = [name for name in before if name in wanted and wanted[name] != before[name]]
        self.done = {name: part for name, part in self.done.items() if name in wanted}
        self.rejected = {name: part for name, part in self.rejected.items() if name in wanted}
        new = [name for name in wanted if name not in before and wanted[name] != self.done.get(name)]
        for name in [*gone, *changed]:
            self._end_one(self.running.pop(name))
        for name in [*changed, *new]:
            self._start(wanted[name])
        what = {"ended": gone, "restarted": changed, "started": new}
        changes = "; ".join(f"{word} {', '.join(names)}" for word, names in what.items() if names)
        print_message(f"reloaded: {changes or 'nothing changed'}")

    def _end_one(self, one: PartProcess) -> None:
        one.end()
        asyncio.get_running_loop().call_later(self.stop_s, one.kill)

    # --- the end ---

    def _stop(self) -> None:
        self.stopped_at = time.monotonic()
        self.stopping = True
        self.woken.set()

    def _hurry(self, number: signal.Signals) -> None:
        # A second Ctrl-C kills the parts at once. A second SIGTERM does nothing, because some senders signal each
        # process of a group and also the group. Signals that arrive together with the first one do nothing either.
        is_late = self.stopping and time.monotonic() - self.stopped_at > IMPATIENT_S
        if number == signal.SIGINT and is_late:
            for one in self.unended:
                one.kill()

    async def _end(self) -> None:
        """Send SIGTERM to every part, and give each time to store its data."""
        for one in self.unended:
            one.end()
        until = time.monotonic() + self.stop_s
        late = self.tasks
        while late and time.monotonic() < until:
            self.manager.beat()
            _, late = await asyncio.wait(late, timeout=LOOK_S)
        if not late:
            return
        self.code = 1
        for one in self.unended:
            if one.process:  # else it waits for an earlier one of its name
                print_message(f"{one.part.name} did not end in {self.stop_s:g} s: killed; stored rows are kept")
                one.kill()
        await asyncio.wait(late)


def _not_reloaded(reason: str) -> None:
    print_message(f"not reloaded, all parts continue: {reason}")


def _for_parts(environment: Mapping[str, str]) -> dict[str, str]:
    """Returns ENVIRONMENT without the variables that systemd set for this process alone."""
    return {name: value for name, value in environment.items() if name not in MINE}
