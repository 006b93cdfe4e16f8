"""Parts that a reload removes, replaces or adds back: each runs once at a time, and all end."""

from __future__ import annotations

import asyncio
import os
import re
import signal
from pathlib import Path

import pytest
from processes import children, stop

from mburst.agent.config import RunPart
from mburst.agent.supervise import Supervisor

NAP = RunPart("nap", ["sleep", "600"])
DOZE = RunPart("nap", ["sleep", "601"])


@pytest.fixture
def naps(monkeypatch):
    """Parts are programs that do what their arguments say."""
    monkeypatch.setattr("mburst.agent.part.command", lambda module, supervisor, *argv: argv)


class Reloaded:
    """A supervisor whose file has the given parts. It ends with the context."""

    def __init__(self, *parts: RunPart) -> None:
        self.supervisor = Supervisor(parts, stop_s=600.0, reread=lambda: (self.parts, {}))
        self.parts = parts

    async def __aenter__(self) -> Reloaded:
        self.running = asyncio.create_task(self.supervisor.run())
        return self

    async def __aexit__(self, *exception: object) -> None:
        for one in children(os.getpid()):
            os.kill(one, signal.SIGCONT)
        self.supervisor._stop()
        await asyncio.wait_for(self.running, 60)

    async def reload(self, *parts: RunPart) -> None:
        self.parts = parts
        await self.supervisor._reload()

    async def process(self, but: int = 0) -> int:
        """Returns the process of the part that shall run, once there is one other than BUT."""
        for _ in range(600):
            one = self.supervisor.running.get("nap")
            if one and one.process and one.process.pid != but:
                return one.process.pid
            await asyncio.sleep(0.1)
        raise AssertionError("no process")

    async def ended(self, pid: int) -> None:
        for _ in range(600):
            if not Path(f"/proc/{pid}").exists():
                return
            await asyncio.sleep(0.1)
        raise AssertionError("it has not ended")


@pytest.mark.parametrize("removed", ["has ended", "is ending", "is ending, replaced"])
def test_a_part_that_was_removed_starts_again_when_it_is_added_back(naps, removed, capfd):
    """Also while the removed one stores its rows: then it starts after that."""

    async def add_back() -> None:
        async with Reloaded(NAP, RunPart("other", NAP.argv)) as file:
            first = await file.process()
            if removed != "has ended":
                stop(first)
            if removed == "is ending, replaced":
                await file.reload(DOZE, RunPart("other", NAP.argv))
            await file.reload(RunPart("other", NAP.argv))
            if removed == "has ended":
                await file.ended(first)
                await asyncio.sleep(0.1)
            await file.reload(NAP, RunPart("other", NAP.argv))
            if removed != "has ended":
                await asyncio.sleep(0.3)
                assert file.supervisor.running["nap"].process is None  # never two at once
                os.kill(first, signal.SIGCONT)
            await file.process(but=first)
            assert not file.supervisor.done

    asyncio.run(add_back())
    assert "mburst: reloaded: ended nap\nmburst: reloaded: started nap\n" in capfd.readouterr().err


def test_a_part_that_finished_runs_again_only_if_it_was_removed_or_changed(naps, capfd):
    done, other = RunPart("nap", ["true"]), RunPart("other", NAP.argv)

    async def finished(file: Reloaded) -> None:
        for _ in range(600):
            if "nap" in file.supervisor.done:
                return
            await asyncio.sleep(0.1)
        raise AssertionError("it has not finished")

    async def change() -> None:
        async with Reloaded(done, other) as file:
            await finished(file)
            await file.reload(done, other)
            await file.reload(other)
            await file.reload(done, other)
            await finished(file)
            await file.reload(NAP, other)
            await file.process()
            await file.reload(done, other)
            await finished(file)

    asyncio.run(change())
    said = re.findall("reloaded: (.*)", capfd.readouterr().err)
    assert said == ["nothing changed", "nothing changed", "started nap", "started nap", "restarted nap"]


def test_a_second_ctrl_c_also_kills_parts_that_a_reload_has_replaced(naps, monkeypatch):
    monkeypatch.setattr("mburst.agent.supervise.IMPATIENT_S", 0.0)

    async def hurry() -> None:
        async with Reloaded(NAP) as file:
            first = await file.process()
            stop(first)
            await file.reload(DOZE)
            file.supervisor._stop()
            await asyncio.sleep(0.1)
            file.supervisor._hurry(signal.SIGINT)
            await file.ended(first)
            assert await asyncio.wait_for(file.running, 60) == 1

    asyncio.run(hurry())
