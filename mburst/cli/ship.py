"""`mburst ship`: copy what a store has sealed to the place of a fleet's stores."""

from __future__ import annotations

import argparse
import os
import secrets
import ssl
import sys
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from ..errors import Interrupted, MburstError, UsageError
from ..fleet import DETECTED, LEVELS
from ..fleet.target import check_address
from ..listening.tls import folders_of
from ..messages import clear_progress, print_lines, print_message, print_progress, report_lines
from ..process import privileges
from ..process.stopping import exit_code, until_stopped
from ..units import NS_PER_S, format_bytes, format_count, format_time, parse_duration
from . import definition, record, values
from .output import write_json_value

if TYPE_CHECKING:
    from ..fleet.ship import HostShipped, Shipped, ShipSettings
    from ..fleet.target import FleetTarget
    from ..sql import StoreFolder

DESCRIPTION = """Copy the sealed files of a store to TARGET, each once and under its path in the store, and write a
receipt for each host: its files with their SHA-256, and until when nothing is missing. Nothing at the target is ever
replaced: an object with other bytes is an error. With --level bursts, detect the bursts of each complete day (UTC)
here and ship only these: TARGET is then a place of results, as `mburst fleet detect` writes them. With --level hot,
also ship the bins and senders of the seconds with bursts and of the seconds beside them. The verb can be interrupted
and called again at any time. Credentials come from the environment (docs/fleet.md). Needs the extra `ship`, except for
a folder."""
LEAST_WAIT_S = 60.0  # first wait after a failed call; doubled each time up to --every
SPREAD = 0.1  # share of --every over which hosts that start together are spread
# Files that the environment names and libraries read at run time: tokens that are replaced from time to time.
TOKENS = ("AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", "AZURE_FEDERATED_TOKEN_FILE")
CERTIFICATES = ("SSL_CERT_FILE", "SSL_CERT_DIR")


def add_parser(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Adds the verb."""
    parser = verbs.add_parser("ship", help="copy a store to a bucket or folder of a fleet", description=DESCRIPTION)
    parser.add_argument("store", metavar="STORE", help="folder that `mburst record` writes")
    parser.add_argument(
        "target", metavar="TARGET", help="s3://bucket/prefix, gs://bucket/prefix, az://container/prefix or a folder"
    )
    parser.add_argument(
        "--level",
        choices=LEVELS,
        default=LEVELS[0],
        help="all: all rows; bursts: the bursts of complete days; hot: the same, with the rows near "
        "them (default: %(default)s)",
    )
    parser.add_argument(
        "--tables",
        metavar="NAMES",
        help="only these tables, such as bins,sources; recordings is always shipped (default: all)",
    )
    parser.add_argument(
        "--every", type=values.duration, metavar="TIME", help="ship again each TIME, such as 1h, until Ctrl-C"
    )
    parser.add_argument(
        "--host", help="host of files without a host: probes, switches (default: the only host of the store)"
    )
    parser.add_argument("--rack", help="rack of files without a rack (default: the only rack of the store)")
    parser.add_argument("--json", action="store_true", help="print what was shipped as JSON")
    record.add_user_option(parser)
    definition.add_burst_options(parser)
    parser.set_defaults(run=run, as_part=as_part)


def as_part(arguments: argparse.Namespace) -> None:
    """Check what a part of `mburst run` requires. Raises UsageError."""
    if not arguments.every:
        raise UsageError("no every: the part would ship once and end", 'write every = "1h"')
    settings_of(arguments)
    check_address(arguments.target)


def settings_of(arguments: argparse.Namespace) -> ShipSettings:
    """Returns the settings from the command line. Raises UsageError."""
    from ..analysis.bursts.find import BurstDefinition
    from ..fleet.sealed import HostName
    from ..fleet.ship import ShipSettings
    from ..sql.tables import LISTING

    bursts = definition.definition_of(arguments)
    if arguments.level in DETECTED and arguments.tables:
        raise UsageError("--tables is of the level all: bursts are detected in those that they need")
    if arguments.level not in DETECTED and bursts != BurstDefinition():
        raise UsageError(
            "the definition of a burst is of the levels bursts and hot", "add --level bursts, or leave it out"
        )
    if arguments.every and arguments.json:
        raise UsageError("--json is of one call: it does not go with --every")
    every = parse_duration(arguments.every) if arguments.every else None
    if every is not None and every < NS_PER_S:
        raise UsageError(f"invalid --every {arguments.every!r}: less than a second")
    tables = [name.strip() for name in arguments.tables.split(",")] if arguments.tables else LISTING
    if unknown := next((name for name in tables if name not in LISTING), None):
        raise UsageError(f"unknown table {unknown!r}", f"there are {', '.join(LISTING)}")
    chosen = tuple(name for name in LISTING if name in tables or name == "recordings")
    return ShipSettings(arguments.level, chosen, HostName(arguments.rack or "", arguments.host or ""), every, bursts)


def run(arguments: argparse.Namespace) -> int:
    """Ship once, or until a signal."""
    from ..fleet.target import open_target
    from ..sql import StoreFolder

    settings = settings_of(arguments)
    target = open_target(arguments.target)
    privileges.lower(arguments.store, arguments.user)
    store = StoreFolder.open(arguments.store)
    settle(store, target)
    if settings.every_ns is not None:
        return keep(store, target, settings)
    shipped = once(store, target, settings)
    if arguments.json:
        write_json_value(shipped.to_dict(store, target, settings))
    else:
        describe(shipped, settings)
    return 1 if shipped.troubles else 0


def shipper(settings: ShipSettings) -> Callable[..., Shipped]:
    """Returns the function that ships the requested level: (store, target, settings, report)."""
    if settings.level in DETECTED:
        from ..fleet.ship_bursts import ship_bursts

        return ship_bursts
    from ..fleet.ship import ship

    return ship


def settle(store: StoreFolder, target: FleetTarget) -> None:
    """Give up all rights except to write the store and the target's folder, and to read what connections need."""
    named = [os.environ[name] for name in (*TOKENS, *CERTIFICATES) if os.environ.get(name)]
    trusted = [path for path in ssl.get_default_verify_paths()[:2] if path]
    privileges.confine([*folders_of(named), *trusted], [store.path, *target.folders()])
    privileges.drop()


# --- one call, and repeated calls -------------------------------------------------------------------------------------


def once(store: StoreFolder, target: FleetTarget, settings: ShipSettings) -> Shipped:
    """Ship once; a signal interrupts it at once. Raises MburstError and Interrupted."""
    ship = shipper(settings)

    done: list[Shipped] = []
    show = _show if sys.stderr.isatty() else lambda shipped: None
    ended_by = until_stopped(lambda stopped: done.append(ship(store, target, settings, show)))
    clear_progress()
    if ended_by:
        raise Interrupted("interrupted", "what has arrived stays; the same command ships the rest")
    return done[0]


def keep(store: StoreFolder, target: FleetTarget, settings: ShipSettings) -> int:
    """Ship every `every_ns` until a signal, and sooner after a failure."""
    ship = shipper(settings)

    assert settings.every_ns is not None
    every_s = settings.every_ns / NS_PER_S

    def work(stopped: threading.Event) -> None:
        failed, named = 0, set[str]()
        with store.place.watched(stopped.set):
            while not stopped.is_set():
                try:
                    shipped = ship(store, target, settings)
                    _name(*(trouble for trouble in shipped.troubles if str(trouble) not in named))
                    named = set(map(str, shipped.troubles))  # a persistent trouble is reported once
                    report_lines(*(_line(host) for host in shipped.hosts if host.sent))
                    failed = 0
                except MburstError as error:
                    store.place.check_after(error)
                    _name(error)
                    failed += 1
                wait = min(every_s, LEAST_WAIT_S * 2 ** (failed - 1)) if failed else every_s
                stopped.wait(wait * (1 - SPREAD * secrets.SystemRandom().random()))

    return exit_code(until_stopped(work))


# --- what was done ----------------------------------------------------------------------------------------------------


def describe(shipped: Shipped, settings: ShipSettings) -> None:
    """Print what was shipped with SETTINGS, and on standard error what was not shipped."""
    _name(*shipped.troubles)
    print_lines(*map(_line, shipped.hosts))
    if not shipped.hosts and not shipped.troubles:
        print_lines(f"{_lacking(settings)}: nothing was shipped")


def _lacking(settings: ShipSettings) -> str:
    """Returns what the store lacks, of which no host has a file."""
    from ..sql.tables import LISTING

    if settings.level in DETECTED:
        return f"no bins are sealed yet, in which --level {settings.level} detects bursts"
    if {*settings.tables} != {*LISTING}:
        return f"nothing of {', '.join(settings.tables)} is sealed yet"
    return "nothing is sealed yet"


def _line(host: HostShipped) -> str:
    parts = [f"{format_count(host.sent, 'file')} ({format_bytes(host.sent_bytes)}) shipped"]
    parts += [f"{host.there:,} had arrived before"] if host.there else []
    parts += [f"{host.waiting:,} wait for the row of their recording"] if host.waiting else []
    parts += [f"{len(host.missing):,} cannot be shipped"] if host.missing else []
    until = f", complete until {format_time(host.until_ns)} UTC" if host.until_ns > 0 else ""
    return f"{host.name}: {', '.join(parts)}{until}"


def _name(*troubles: MburstError) -> None:
    for trouble in troubles:
        print_message(f"{trouble}" + (f" ({trouble.hint})" if trouble.hint else ""))


def _show(shipped: Shipped) -> None:
    sent = sum(host.sent for host in shipped.hosts), sum(host.sent_bytes for host in shipped.hosts)
    print_progress(f"{format_count(sent[0], 'file')}, {format_bytes(sent[1])}")
