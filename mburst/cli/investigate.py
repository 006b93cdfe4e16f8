"""`mburst investigate`: whether bursts cause the latency tail, and which senders they have."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from .. import temporary
from ..api.investigating import Investigation, investigated
from ..errors import UsageError
from ..messages import print_lines
from . import definition, output, values

if TYPE_CHECKING:
    from ..analysis.answers.investigate import InvestigationResult
    from ..analysis.bursts.find import BurstDefinition
    from ..sql import StoreFolder

DESCRIPTION = """Determine what explains the latency tail of the probes in a store: bursts of the recorded ports, the
hosts, the rest of the network, or nothing because there is no tail; or `undetermined`, with what is missing, if the
recording is insufficient. A capture file is recorded into a temporary store first."""


def add_parser(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Adds the verb."""
    parser = verbs.add_parser("investigate", help="test whether bursts cause the latency tail", description=DESCRIPTION)
    add_scope(parser, "--link")
    output = parser.add_argument_group("output")
    output.add_argument("-o", "--output", metavar="FILE", help="write a page as one HTML file")
    formats = output.add_mutually_exclusive_group()
    formats.add_argument("--json", dest="format", action="store_const", const="json", help="print the answer as JSON")
    formats.add_argument(
        "--markdown", dest="format", action="store_const", const="markdown", help="print the answer as Markdown"
    )
    definition.add_burst_options(parser)
    parser.set_defaults(run=run, format="text")


def add_scope(parser: argparse.ArgumentParser, link_option: str) -> None:
    """Add the options for the store or capture, the selection in it, and the definition of a tail. `mburst what-if`
    shares them. LINK_OPTION is the option with the speed of the recorded link."""
    parser.add_argument("store", metavar="STORE|CAPTURE", help=f"a store, or a capture file (with {link_option})")
    scope = parser.add_argument_group("what to investigate")
    scope.add_argument("--probes", metavar="FILE", help="CSV of probes for a capture file (as `mburst import probes`)")
    scope.add_argument("--queues", metavar="FILE", help="CSV of queue windows for a capture file")
    scope.add_argument("--host", action="append", default=[], help="only this recorded host; may be repeated")
    scope.add_argument("--rack", help="only hosts of this rack")
    scope.add_argument(
        "--alias",
        action="append",
        default=[],
        metavar="NAME",
        help="name of the recorded host in the probes, if the names differ; may be repeated",
    )
    scope.add_argument(
        "--tail",
        type=values.duration,
        metavar="TIME",
        help="a probe is late if it exceeds the median by this time and by the factor (default by the "
        "speed of the recorded link: 1ms at 1 Gb/s, 200us at 25 Gb/s, 100us at 100 Gb/s)",
    )
    scope.add_argument(
        "--tail-factor",
        default=5.0,
        type=float,
        metavar="N",
        help="factor of the median that a late probe also exceeds (default: %(default)s)",
    )
    scope.add_argument(
        "--seed", default=1, type=int, help="seed of the resampling; the same seed gives the same answer"
    )
    definition.add_time_options(scope)


def run(arguments: argparse.Namespace) -> int:
    """Investigate, write and print."""
    if arguments.output and Path(arguments.output).is_dir():
        raise UsageError(f"-o {arguments.output} is a folder", "name a file, such as report.html")
    answer = Investigation(asked_for(arguments, definition.definition_of(arguments)))
    if arguments.output:
        answer.write(arguments.output)
    if arguments.format == "json":
        output.write_json_value(answer.to_dict())
    elif arguments.format == "markdown":
        sys.stdout.write(answer.markdown())
    else:
        sys.stdout.write(str(answer))
        if arguments.output:
            print_lines(f"report: {arguments.output}")
    return 0


def asked_for(arguments: argparse.Namespace, wanted: BurstDefinition) -> InvestigationResult:
    """Returns the investigation that the options of add_scope ask for."""
    with opened(arguments, wanted.link_bps) as store:
        return investigated(
            store,
            wanted,
            hosts=arguments.host,
            rack=arguments.rack,
            alias=arguments.alias,
            tail=arguments.tail,
            tail_factor=arguments.tail_factor,
            seed=arguments.seed,
            since=arguments.since,
            until=arguments.until,
        )


@contextmanager
def opened(arguments: argparse.Namespace, link_bps: int | None) -> Iterator[StoreFolder]:
    """Yields the store, or a temporary one that is recorded from a capture."""
    from ..sql import StoreFolder

    path = Path(arguments.store)
    if not path.is_file():
        if arguments.probes or arguments.queues:
            raise UsageError("--probes and --queues go with a capture", "`mburst import` adds them to a store")
        yield StoreFolder.open(path)
        return
    from ..api.importing import import_csv
    from ..services.record.recorder import record
    from ..services.record.recording import RecordSettings

    with temporary.folder("mburst-") as folder:
        store = StoreFolder.create(Path(folder, "store"))
        record(
            store,
            RecordSettings(
                [str(path)],
                link_bps=link_bps,
                host=arguments.host[0] if arguments.host else "unknown",
                rack=arguments.rack or "unknown",
            ),
        )
        for kind in ("probes", "queues"):
            if file := getattr(arguments, kind):
                import_csv(store, kind, file)
        yield store
