"""`mburst metrics`: metrics of the data that a store receives, for Prometheus."""

from __future__ import annotations

import argparse
import os
import time
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import UsageError
from ..messages import print_message
from ..names import shown
from ..process import privileges
from ..process.stopping import exit_code, stopping
from ..units import format_time
from . import definition, record, serving, values

if TYPE_CHECKING:
    from ..sql import StoreFolder
    from ..web.address import ListenAddress

PORT = 9620

DESCRIPTION = """Serve metrics of a store to Prometheus at /metrics, in its format or OpenMetrics, until Ctrl-C:
bursts, their durations and fan-in, peak utilization by width, losses, stamps, probes, switch queues and gNMI targets.
Counters begin at zero when it starts, or with the rows that were stored since a given time. Needs the extra
`metrics`."""


def add_parser(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Adds the verb."""
    parser = verbs.add_parser("metrics", help="export the bursts of a store to Prometheus", description=DESCRIPTION)
    parser.add_argument("store", metavar="STORE", help="folder of the store; made if it does not exist")
    parser.add_argument(
        "--listen",
        default="127.0.0.1:9620",
        metavar="ADDRESS:PORT",
        help="address to listen on (default: %(default)s, for this machine only; elsewhere a token is "
        "needed, or --open)",
    )
    serving.add_options(parser, "as a Bearer token (none is required on this machine without this option)")
    parser.add_argument(
        "--since",
        type=values.since,
        metavar="TIME",
        help="start of the counters: 24h (before the newest data) or 2026-11-20T14:03 (default: now)",
    )
    parser.add_argument(
        "--config",
        metavar="FILE",
        help="configuration of `mburst run`: export also whether its parts run, whether its reports "
        "are written and delivered, and the maximum size of the store",
    )
    definition.add_burst_options(parser)
    record.add_user_option(parser)
    parser.set_defaults(run=run, as_part=as_part, until=None, rack=None)


def as_part(arguments: argparse.Namespace) -> None:
    """Check what a part of `mburst run` requires. Raises UsageError."""
    definition.definition_of(arguments)
    where_of(arguments)


def run(arguments: argparse.Namespace) -> int:
    """Serve until a signal."""
    from ..agent.metrics.exporter import MetricsService, require
    from ..agent.metrics.meter import Meter
    from ..sql import StoreFolder

    require()
    where = where_of(arguments)
    config = Path(arguments.config).absolute() if arguments.config else None
    reads = looked_at(config) if config else []
    privileges.lower(arguments.store, arguments.user)
    serving.name_new_store(arguments.store)
    with (
        StoreFolder.created(arguments.store) as store,
        closing(Meter(store, definition.definition_of(arguments), since_of(store, arguments.since))) as meter,
    ):
        service = MetricsService(meter, where, config)
        privileges.confine([*reads, *where.reads], [store.path], made_in=store.made_in)
        privileges.drop()
        with stopping(service.stop) as ended_by, store.place.watched(service.stop):
            print(f"metrics of {shown(arguments.store)}: {service.url}", flush=True)
            service.run()
    return exit_code(ended_by)


def since_of(store: StoreFolder, text: str | None) -> int | None:
    """Returns the time from which rows count, in Unix nanoseconds; a duration counts back from the newest data. One in
    the future is stated and not refused: the service goes on until then, and the clock may be behind. Raises
    UsageError."""
    from ..api.options import NewestData, time_of

    newest_ns = NewestData().of(store, None) if text else None
    since_ns = time_of(newest_ns, text)
    if since_ns is not None and since_ns > max(newest_ns or 0, time.time_ns()):
        print_message(f"--since {format_time(since_ns)[:19]} UTC is in the future: nothing counts before it")
    return since_ns


def looked_at(config: Path) -> list[Path]:
    """Returns the paths that must be readable to check the condition of all that the file at CONFIG runs, even if they
    are replaced or created later. Raises MburstError."""
    from ..agent.config import load

    found = load(config, fill=False)
    folders = [*map(Path, found.stores), *(report.output for report in found.reports)]
    there = [folder for folder in folders if os.path.isdir(folder)]
    others = [config, config.resolve(), *(folder for folder in folders if folder not in there)]
    return [config, *there, *map(privileges.lasting, others)]


def where_of(arguments: argparse.Namespace) -> ListenAddress:
    """Returns the address to listen on. On loopback a token is required only with a token file: Prometheus on this
    machine needs no secret for sums by host, interface and path, which name no sender. Elsewhere a token, or --open, is
    required. Raises MburstError."""
    where = serving.where_of(arguments, PORT)
    if where.made and where.loopback:
        return replace(where, token=None, made=False)
    if where.made:
        raise UsageError(
            f"{where.host} is reached from other machines: give --token-file FILE",
            "Prometheus sends it with `authorization: {credentials_file: FILE}`; --open disables it",
        )
    return where
