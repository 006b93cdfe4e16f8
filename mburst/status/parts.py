"""The parts of a mburst.toml that run on this machine, found by its processes (proc(5)), so that the status is never
stale."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from ..agent.config import RunConfig
from ..errors import MburstError
from ..units import NS_PER_S

PROC = Path("/proc")
CHILD, RUN = "mburst.agent.child", "run"
CLOCK_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class PartStatus:
    """A part and its process; `process` and `age_ns` are None if it does not run."""

    name: str
    process: int | None
    age_ns: int | None


@dataclass(frozen=True)
class PartsStatus:
    """All parts of a file. `supervisor` is the process of `mburst run`, None if this user can see none."""

    config: str
    supervisor: int | None
    parts: list[PartStatus]

    def unwell(self) -> list[str]:
        """Returns the problems, one sentence each."""
        if not self.parts:
            return []
        if self.supervisor is None:
            return [f"no process of `mburst run {self.config}` runs that user {os.geteuid()} can see"]
        return [f"{part.name} does not run" for part in self.parts if part.process is None]

    def facts(self) -> dict[str, Any]:
        """Returns the facts for JSON."""
        return {"config": self.config, "supervisor": self.supervisor, "parts": [vars(part) for part in self.parts]}


def read(config: RunConfig) -> PartsStatus:
    """Read the processes of this machine. Parts that `--only` leaves out are not expected to run."""
    from ..cli.run import chosen

    for supervisor, children in sorted(_supervisors(), key=lambda found: not found[1]):  # `sudo mburst run` has none
        given = _given(supervisor)
        if given and given.path == config.path.resolve():
            wanted = chosen(replace(config, path=Path(given.name)), given.only)
            parts = [PartStatus(part.name, *children.get(tuple(part.argv), (None, None))) for part in wanted]
            return PartsStatus(str(config.path), supervisor, parts)
    return PartsStatus(str(config.path), None, [PartStatus(part.name, None, None) for part in chosen(config, [])])


def _supervisors() -> Iterator[tuple[int, dict[tuple[str, ...], tuple[int, int]]]]:
    """Yields each process of `mburst run`, with the command lines, ids and ages of its parts."""
    found: dict[int, dict[tuple[str, ...], tuple[int, int]]] = {}
    for folder in PROC.iterdir():
        words = _words(int(folder.name)) if folder.name.isdecimal() else []
        if CHILD in words:
            supervisor, *argv = words[words.index(CHILD) + 1 :]
            with suppress(OSError, ValueError):
                found.setdefault(int(supervisor), {})[tuple(argv)] = int(folder.name), _age_ns(folder)
        elif RUN in words and any(Path(word).name == "mburst" for word in words[: words.index(RUN)]):
            found.setdefault(int(folder.name), {})
    yield from found.items()


def _words(process: int) -> list[str]:
    with suppress(OSError):
        return (PROC / str(process) / "cmdline").read_bytes().decode(errors="surrogateescape").split("\0")[:-1]
    return []


def _age_ns(folder: Path) -> int:
    """Returns how long a process has run. Raises OSError and ValueError if it has ended."""
    began = int((folder / "stat").read_text().rpartition(")")[2].split()[19]) / CLOCK_TICKS
    return round((time.clock_gettime(time.CLOCK_BOOTTIME) - began) * NS_PER_S)


class RunCall(NamedTuple):
    """The arguments of a `mburst run`: its file, by name and by path, and the parts of --only."""

    name: str
    path: Path
    only: list[str]


def _given(supervisor: int) -> RunCall | None:
    """Returns the arguments of a `mburst run`, from its command line and its current folder."""
    from ..cli import build_parser

    words = _words(supervisor)
    with suppress(OSError, ValueError, MburstError):  # it has ended, or the process is something else
        given = build_parser(RUN).parse_args(words[words.index(RUN) :])
        path = os.path.realpath(os.path.join(_folder(supervisor, given.config), given.config))
        return RunCall(given.config, Path(path), given.only)
    return None


def _folder(supervisor: int, config: str) -> str:
    """Returns the folder to which the name CONFIG is relative. A user with fewer rights than the supervisor may not
    read the supervisor's folder; for a part of it, its own folder is the same. Raises OSError."""
    if os.path.isabs(config):
        return "/"
    return os.getcwd() if supervisor == os.getppid() else os.readlink(PROC / str(supervisor) / "cwd")
