"""`mburst demo`: the incast of a cache server from the wire to the report, with the commands that a user would type."""

from __future__ import annotations

import argparse
import json
import shlex
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import MburstError, UsageError
from ..process import privileges
from ..units import NS_PER_S, format_duration, parse_duration
from . import values

if TYPE_CHECKING:
    from ..lab.demo.cases import DemoCase

DEFINITION = ["--bin", "1ms", "--threshold", "0.8", "--join", "5ms", "--min-duration", "3ms"]


def add_parser(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Adds the verb."""
    parser = verbs.add_parser(
        "demo",
        help="generate the incast of a cache server and detect it",
        description="Let 40 databases answer one cache server at once, record the packets that it receives, "
        "detect the bursts, compare them with the truth, test their effect on latency, and write "
        "a report. As root on Linux, real packets cross a real queue in separate network "
        "namespaces, which are removed at the end; the verbs record, probe, reflect, switch-agent "
        "and collect measure them. Otherwise the case is simulated. Needs the extra `demo`.",
    )
    parser.add_argument("-o", "--output", metavar="DIR", default="demo", help="output folder (default: demo)")
    parser.add_argument("--simulate", action="store_true", help="simulate, even as root")
    parser.add_argument(
        "--duration",
        type=values.duration,
        metavar="TIME",
        default="20s",
        help="how long real packets are sent (default: %(default)s)",
    )
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="seed of the random numbers (default: 1)")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Create the case, and run on it what a user would run."""
    from ..lab.demo.folder import NAMES
    from ..lab.rack import check_seconds

    folder, seconds = Path(arguments.output), parse_duration(arguments.duration) / NS_PER_S
    check_seconds(seconds)
    if arguments.seed < 0:
        raise UsageError(f"--seed {arguments.seed} is below 0")
    is_new, owner = not folder.exists(), privileges.owner_of(folder)
    try:
        return _go_through(folder, arguments, seconds)
    finally:
        made = [folder] if is_new else [folder / name for name in NAMES]
        privileges.give([path for path in made if path.exists()], owner)


def _go_through(folder: Path, arguments: argparse.Namespace, seconds: float) -> int:
    from ..lab.demo.commands import CommandFailed
    from ..lab.demo.folder import own

    with own(folder):
        try:
            definition = find(make(folder, None if arguments.simulate else seconds, arguments.seed), folder)
        except CommandFailed as failed:
            return failed.code
    print("\n".join(farewell(folder, definition)))
    return 0


def make(folder: Path, seconds: float | None, seed: int) -> DemoCase:
    """Create the case in FOLDER/store: live for SECONDS if this machine allows it, else simulated; None: simulated."""
    from ..lab.demo import cases
    from ..lab.rack import RackUnavailable

    if seconds is not None:
        try:
            return cases.live(folder, seconds, seed)
        except RackUnavailable as reason:
            hint = f" ({reason.hint})" if reason.hint else ""
            print(f"The case is simulated, because real packets are not possible here: {reason}{hint}.\n")
    return cases.simulated(folder, seed)


def find(case: DemoCase, folder: Path) -> list[str]:
    """Import what the store lacks, list bursts, investigate, report. Returns the options by which bursts were detected.
    Raises CommandFailed."""
    from ..lab.demo.cases import unsampled
    from ..lab.demo.commands import call, heard
    from ..lab.demo.verdict import verdict

    store = str(folder / "store")
    for words in case.imports:
        call(["import", *words, "-o", store])
    definition, compared = detectable(case, folder)
    bursts = json.loads(heard(["bursts", store, *definition, "--json"]))
    missing = unsampled(folder / "store", compared.switch) if compared.switch else []
    print("\n".join(verdict(compared, bursts, missing)))
    answer = heard(["investigate", store])
    print(answer.partition("\n")[0])
    if case.switch:
        print(section(answer, "DO THE SOURCES AGREE?"))
    call(["report", store, "--rack", "r1", *definition, "-o", str(folder / "report")])
    return definition


def detectable(case: DemoCase, folder: Path) -> tuple[list[str], DemoCase]:
    """Returns the options of the detection, and the case that its bursts are compared with: both without the switch if
    this machine was so busy that the bins of its port have a width that does not fit."""
    from ..lab.demo.cases import RECORD, unfit_width

    width_ns = unfit_width(folder / "store", case.switch, parse_duration(DEFINITION[1])) if case.switch else None
    if width_ns is None:
        return DEFINITION, case
    print(
        f"\nThe switch took its samples so unevenly that the bins of its port have {format_duration(width_ns)}: "
        "bursts are detected without it."
    )
    return [*DEFINITION, "--host", str(RECORD["host"])], replace(case, switch="")


def section(answer: str, heading: str) -> str:
    """Returns a section of the output of `mburst investigate`."""
    return "…\n" + heading + answer.partition(f"\n{heading}")[2].partition("\n\n")[0]


def farewell(folder: Path, definition: list[str]) -> list[str]:
    """Returns lines on the location of the report and on what to do next. DEFINITION: the options of the detection."""
    pages = sorted((folder / "report").rglob("*.html"))
    if len(pages) != 1:
        raise MburstError(f"{folder / 'report'} has {len(pages)} pages instead of one")
    store = shlex.quote(str(folder / "store"))
    return [
        "",
        "Go on with:",
        f"  mburst bursts {store} {' '.join(definition)}",
        f"  mburst investigate {store}",
        f"  mburst what-if {store} --link 10G",
        f"  mburst sql {store}",
        f"  less {shlex.quote(str(folder / 'truth.csv'))}",
        "",
        f"The report, to be opened in a browser: {pages[0]}",
    ]
