"""`mburst fleet status`: which hosts ship to a target, what, until when, and which are silent."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, Any

from ..errors import MburstError
from ..messages import print_message
from ..units import format_duration, format_time
from .fleet import add_inventory
from .output import write_json_value, write_table

if TYPE_CHECKING:
    from ..fleet.status import HostStatus

DESCRIPTION = """List each host that has shipped to TARGET: until when nothing of it is missing, how far that is behind
now, and which of its files are damaged and could not be shipped. A host that is behind by more than twice the time
between its calls is silent. An inventory adds hosts that never shipped, and states which hosts were removed. Exit code
0: no host is silent and no receipt damaged; 1: some are."""
COLUMNS = ("rack", "host", "level", "complete until (UTC)", "behind", "last receipt", "missing files", "silent")


def add_parser(questions: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the subcommand."""
    parser = questions.add_parser(
        "status", help="list the hosts that ship, until when, and which are silent", description=DESCRIPTION
    )
    parser.add_argument("target", metavar="TARGET", help="bucket or folder, as for `mburst ship`")
    parser.add_argument("--rack", help="only this rack")
    add_inventory(parser)
    parser.add_argument("--json", action="store_true", help="print a JSON object")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Read the newest receipts, and list the hosts."""
    from ..fleet.inventory import read_inventory
    from ..fleet.receipts import DamagedReceipt
    from ..fleet.status import facts, status
    from ..fleet.target import open_target

    damaged: list[DamagedReceipt] = []
    inventory = read_inventory(arguments.inventory)
    target = open_target(arguments.target)
    hosts = status(target, arguments.rack, damaged=damaged.append, inventory=inventory, doubted=print_message)
    for error in damaged:
        print_message(f"{error} ({error.hint})")
    if not damaged and not any(host.receipts for host in hosts):  # the target may be mistyped
        nobody = nobody_ships(arguments.target, arguments.rack)
        if not hosts:
            raise nobody
        print_message(f"{nobody} ({nobody.hint})")
    if arguments.json:
        write_json_value(facts(arguments.target, hosts, damaged))
    else:
        write_table(COLUMNS, map(_row, hosts), sys.stdout)
    return 1 if damaged or any(host.silent for host in hosts) else 0


def nobody_ships(target: str, rack: str | None) -> MburstError:
    """That no host, or none of RACK, has ever shipped."""
    of_rack = f" of rack {rack}" if rack is not None else ""
    return MburstError(f"{target}: no host{of_rack} has shipped here", "`mburst ship STORE TARGET` ships a store")


def _row(host: HostStatus) -> tuple[Any, ...]:
    return (
        host.rack,
        host.host,
        host.level or "-",
        format_time(host.until_ns)[:19] if host.until_ns > 0 else "never",
        format_duration(host.behind_ns) if host.until_ns > 0 else "-",
        format_duration(host.behind_ns + host.until_ns - host.written_ns) + " ago" if host.receipts else "never",
        len(host.missing),
        host.silent or (_removed(host, host.removed_ns) if host.removed_ns is not None else "-"),
    )


def _removed(host: HostStatus, removed_ns: int) -> str:
    lacking_ns = removed_ns - host.until_ns
    lacks = f", {format_duration(lacking_ns)} before it not shipped" if 0 < lacking_ns < removed_ns else ""
    return f"removed at {format_time(removed_ns)[:19]}{lacks}"
