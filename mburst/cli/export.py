"""`mburst export`: a store as a file for other programs."""

from __future__ import annotations

import argparse
from pathlib import Path

from ..api.options import Scope
from ..messages import print_lines
from ..units import format_bytes, format_count, format_duration, format_time
from . import definition

DESCRIPTION = """Write a store as a trace for https://ui.perfetto.dev (it reads the file in the browser and sends it
nowhere): bursts and their senders, utilization by the bin and by the second, latency of probes with the late and lost
ones, depth and drops of switch queues, and times without a recording, as tracks on one axis of Unix nanoseconds.
Traces of applications can be opened beside it. A long time is shown in wider cells, each with its fullest bin; bursts
are always shown bin by bin. Needs the extra `perfetto`."""


def add_parser(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Adds the verb."""
    parser = verbs.add_parser("export", help="write a store as a trace for ui.perfetto.dev", description=DESCRIPTION)
    parser.add_argument("store", metavar="STORE", help="folder that `mburst record` wrote")
    parser.add_argument(
        "--format", choices=["perfetto"], default="perfetto", help="format of the file (default: %(default)s)"
    )
    parser.add_argument("-o", "--output", required=True, metavar="FILE", help="output file, such as trace.pftrace")
    where = parser.add_argument_group("where and when")
    where.add_argument("--rack", help="only recordings of this rack")
    where.add_argument("--host", help="only recordings of this host")
    definition.add_time_options(where)
    definition.add_burst_options(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Write the file, and print what it contains."""
    from ..api.tracing import trace_of
    from ..sql import StoreFolder

    wanted = definition.definition_of(arguments)
    store = StoreFolder.open(arguments.store)
    hosts = [arguments.host] if arguments.host else None
    since_ns, until_ns = definition.span_of(store, arguments)
    path = Path(arguments.output)
    found = trace_of(store, wanted, Scope(hosts, arguments.rack, since_ns=since_ns, until_ns=until_ns), path)
    bursts = sum(len(lane.bursts) for lane in found.lanes)
    directions = {(of.rack, of.host, of.interface, of.direction) for of in (lane.lane for lane in found.lanes)}
    print_lines(
        f"trace: {path} ({format_bytes(path.stat().st_size)}), {format_duration(found.end_ns - found.start_ns)} from "
        f"{format_time(found.start_ns)} UTC: {format_count(len(directions), 'port direction')}, "
        f"{format_count(bursts, 'burst')}, {format_count(found.paths_found, 'probed path')}, "
        f"{format_count(found.queues_found, 'switch queue')}",
        "open it in https://ui.perfetto.dev",
    )
    return 0
