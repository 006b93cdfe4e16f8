"""`mburst run`: everything that a host does for mburst, configured by one file."""

from __future__ import annotations

import argparse
import asyncio
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import MburstError, UsageError
from ..messages import print_lines, print_message

if TYPE_CHECKING:
    from ..agent.config import RunConfig, RunPart

DESCRIPTION = """Run the parts that a file names (recordings, probes and so on, metrics, reports that are due) as
processes under one supervisor, until SIGTERM or Ctrl-C ends all of them cleanly. A part that fails or hangs is
restarted. SIGHUP reads the file again and restarts the parts that changed. The tables of the file have the names of
verbs, and their keys are the options of these verbs."""


def add_parser(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Adds the verb."""
    parser = verbs.add_parser("run", help="run all parts of a host, from one file", description=DESCRIPTION)
    parser.add_argument(
        "config", metavar="FILE", nargs="?", default="mburst.toml", help="the configuration (default: %(default)s)"
    )
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--init", action="store_true", help="write an example with comments to FILE, and end")
    what.add_argument("--check", action="store_true", help="print what would be run, and end")
    parser.add_argument(
        "--only",
        action="append",
        metavar="PART",
        default=[],
        help="only this part, such as record or report; may be repeated",
    )
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Read the file, and write an example, check, or run."""
    path = Path(arguments.config)
    if arguments.init:
        return init(path)
    from ..agent.config import load

    config = load(path)
    for warning in config.environment.warnings:
        print_message(warning)
    parts = needed(config, arguments.only)
    if arguments.check:
        check(config, parts)
        return 0
    from ..agent.part_check import check_files
    from ..agent.supervise import Reading, Supervisor

    def reread() -> Reading:
        again = load(path)
        return needed(again, arguments.only), again.environment.merged()

    async def work() -> int:
        environment = config.environment.merged()
        return await Supervisor(parts, environment=environment, reread=reread, check=check_files).run()

    return asyncio.run(work())


def needed(config: RunConfig, only: list[str]) -> list[RunPart]:
    """Returns the parts to run. Raises UsageError if there are none: an editor may have emptied the file just before it
    writes the new content."""
    if parts := chosen(config, only):
        return parts
    raise UsageError(f"{config.path}: nothing to run", "it has no part such as [record] or [[report]]")


def chosen(config: RunConfig, only: list[str]) -> list[RunPart]:
    """Returns the parts to run: those in the file, and one for its reports. Raises UsageError for an unknown name."""
    parts = [*config.parts, *config.schedule]
    for name in only:
        if not any(name in (part.name, part.name.split()[0]) for part in parts):
            raise UsageError(
                f"{config.path}: unknown part {name!r}", f"there are {', '.join(part.name for part in parts) or 'none'}"
            )
    return [part for part in parts if not only or part.name in only or part.name.split()[0] in only]


def check(config: RunConfig, parts: list[RunPart]) -> None:
    """Print what would be run. Raises UsageError if a file that a part names is invalid; what is missing on this
    machine is reported by the part."""
    from ..agent.part_check import check_files

    for part in parts:
        try:
            check_files(part, config.environment.merged())
        except UsageError:
            raise
        except MburstError:
            pass
    for part in parts:
        print_lines(f"{part.name}: mburst {shlex.join(part.argv)}")
    for report in config.reports:
        racks = (
            f"the fleet of {report.source.results}"
            if report.source.results
            else "all racks"
            if report.racks is None
            else f"rack{'s' if len(report.racks) > 1 else ''} " + ", ".join(report.racks)
        )
        to = f", delivered to {', '.join(report.deliver)}" if report.deliver else ""
        print_lines(f"report {report.name}: every {report.every} of {racks} into {report.output}{to}")
    print_lines(f"{config.path} is valid")


def init(path: Path) -> int:
    """Write the example. Raises MburstError if the file already exists."""
    from ..agent import EXAMPLE

    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(EXAMPLE.read_text(encoding="utf-8"))
    except FileExistsError:
        raise MburstError(f"{path}: file exists", "name another file") from None
    except OSError as error:
        raise MburstError(f"{path}: cannot write: {error.strerror}") from error
    print(f"{path}: edit it, then `mburst run --check {path}` and `mburst run {path}`", file=sys.stdout)
    return 0
