"""`mburst import`: add probes and switch queues from CSV files, and the notes of `mburst canary`, to a store."""

from __future__ import annotations

import argparse
import json
import sys
from functools import partial
from pathlib import Path
from typing import Any

from ..api import importing
from ..errors import UsageError
from ..process import privileges
from ..process.stopping import stopping
from ..units import format_count, format_time
from . import canary, definition, record

DESCRIPTION = """Add probes or switch queues from a CSV file to a store. The first line names the columns; times are
Unix nanoseconds. probes: src, dst, tx_ns, and optionally seq, app_send_ns, remote_rx_ns, remote_tx_ns, rx_ns,
app_recv_ns, lost, rtt_ns (instead of the stamps), protocol, stamp_kind, clock_error_ns; a file needs a column that
shows whether an answer came. queues: device, port, queue, window_start_ns, ts_ns, semantics, and optionally max_bytes,
avg_bytes, transmit_bytes, dropped_packets, ecn_marked_packets, receive_ns, quality. Rows that are already in the store
are not added again, so a file that has grown adds only its new rows; nothing is added while a damaged file of the store
may have them. canary: the record that `mburst canary --sent` wrote; prints which of its bursts were detected, by the
definition of a burst in the options."""


def add_parser(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = verbs.add_parser("import", help="add probes or switch queues from a CSV file", description=DESCRIPTION)
    parser.add_argument("kind", choices=["probes", "queues", "canary"], help="content of the file")
    parser.add_argument("file", metavar="FILE", help="CSV, also compressed by gzip; - for standard input")
    parser.add_argument(
        "-o", "--store", metavar="STORE", required=True, help="folder of the store; made if it does not exist"
    )
    parser.add_argument("--protocol", default="", help="protocol, if the file has no such column: udp, tcp, icmp")
    canary.add_reading_options(parser, "print the added rows as JSON")
    definition.add_burst_options(parser)
    record.add_user_option(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    from ..sql import StoreFolder
    from ..telemetry.csv_import import open_text

    check(arguments)
    if arguments.kind == "canary":
        return canary.import_run(arguments)
    # A flag is used, because a KeyboardInterrupt could arrive where Arrow's code or a callback loses it.
    with open_text(arguments.file) as text, stopping(lambda: None) as ended_by:
        privileges.lower(arguments.store, arguments.user)
        privileges.confine([], [_there(Path(arguments.store).absolute())])
        privileges.drop()
        imported = importing.add(
            partial(StoreFolder.created, arguments.store),
            arguments.kind,
            text,
            arguments.file,
            arguments.protocol,
            lambda: ended_by,
        )
    result = imported._asdict()
    sys.stdout.write(json.dumps(result) + "\n" if arguments.json else "\n".join(lines_of(result)) + "\n")
    return 0


# The kind of files that options are of; those that are not here are of all kinds.
_OF_KIND = {"protocol": "probes"} | dict.fromkeys(
    ("host", "sender", "bin", "threshold", "release", "join", "min_duration", "link"), "canary"
)


def check(arguments: argparse.Namespace) -> None:
    """Raise UsageError for an option that is not of this kind of file: it would have no effect."""
    for name, kind in _OF_KIND.items():
        if arguments.kind != kind and getattr(arguments, name):
            option = f"--{name.replace('_', '-')}"
            raise UsageError(f"{option} is of `mburst import {kind}`, not of {arguments.kind}", "leave it out")


def _there(store: Path) -> Path:
    """Returns the store, or the existing folder in which it will be created: an invalid file creates no store."""
    return next(path for path in (store, *store.parents) if path.exists())


def lines_of(result: dict[str, Any]) -> list[str]:
    """Returns the result of an import as lines of text."""
    parts = [f"{result['table']}: {format_count(result['rows'], 'row')}"]
    if result["table"] == "probes":
        parts.append(f"{result['lost']:,} lost")
    if result["rows"]:
        parts.append(f"{format_time(result['start_ns'])} → {format_time(result['end_ns'])} UTC")
    lines = [", ".join(parts)]
    held = result["rows"] - result["added"] - result["summed"]
    if held or result["summed"]:
        counts = [f"{result['added']:,} added"]
        counts += [f"{held:,} already in the store"] * bool(held)
        counts += [f"{result['summed']:,} in seconds that the store keeps only as sums"] * bool(result["summed"])
        lines.append(", ".join(counts))
    if result["backwards"]:
        lines.append(
            f"{result['backwards']:,} of them end before they begin, and have no latency: the clock may have stepped"
        )
    return lines
