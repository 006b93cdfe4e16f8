"""`mburst names`: names of addresses."""

from __future__ import annotations

import argparse
import sys
import threading
from typing import TYPE_CHECKING, Any

from .. import files
from ..errors import Interrupted, MburstError, UsageError
from ..messages import print_lines, print_message, report_lines
from ..process import privileges
from ..process.stopping import exit_code, until_stopped
from ..units import NS_PER_MINUTE, NS_PER_S, format_count, format_time, parse_duration, whole
from . import definition, output, record, values

if TYPE_CHECKING:
    from ..api.naming import DnsLimits, NamesImported
    from ..sql import StoreFolder

DESCRIPTION = """Name the addresses of a store: name, service, rack and owner. Without a source, list them. SOURCE is a
file (CSV with the columns address, name, service, rack, owner, from and until; the format of /etc/hosts; the JSON of
`kubectl get pods,services -A -o json` or of Consul's /v1/catalog; - for standard input), `hosts` for /etc/hosts, `dns`
for reverse DNS of the senders in the store, or `recorded` for the hosts that the store has recordings of. The longest
prefix of an address counts. Reading a source again replaces its names: those of a CSV file for all time, those of
others from then on."""
LEAST_EVERY_NS = NS_PER_MINUTE


def add_parser(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Adds the verb."""
    parser = verbs.add_parser("names", help="name the addresses of a store", description=DESCRIPTION)
    parser.add_argument("store", metavar="STORE", help="folder that `mburst record` wrote")
    parser.add_argument("sources", metavar="SOURCE", nargs="*", help="a file, -, hosts, dns or recorded")
    parser.add_argument("--remove", metavar="ORIGIN", help="end the names of a source, as the list calls it")
    parser.add_argument(
        "--every",
        type=values.duration,
        metavar="TIME",
        help="read the sources again each TIME, such as 1h, until Ctrl-C",
    )
    output.add_format(parser)
    asked = parser.add_argument_group("reverse DNS: needs the extra `names`")
    asked.add_argument("--server", metavar="ADDRESS", default="", help="DNS server, with its port if that is not 53")
    asked.add_argument("--most", metavar="N", default="1000", help="senders to look up (default: %(default)s)")
    asked.add_argument(
        "--timeout",
        type=values.duration,
        metavar="TIME",
        default="10s",
        help="longest wait for all (default: %(default)s)",
    )
    definition.add_time_options(asked)
    record.add_user_option(parser)
    parser.set_defaults(run=run, as_part=as_part, rack=None)  # span_of: of all racks


def as_part(arguments: argparse.Namespace) -> None:
    """Check what a part of `mburst run` requires. Raises UsageError."""
    if not arguments.every or not arguments.sources:
        raise UsageError("a part needs sources and every", 'example: sources = ["hosts"] and every = "1h"')
    check(arguments)


def check(arguments: argparse.Namespace) -> None:
    """Raise UsageError for contradictory options."""
    if arguments.every and parse_duration(arguments.every) < LEAST_EVERY_NS:
        raise UsageError(f"invalid --every {arguments.every!r}: less than a minute")
    if arguments.every and (arguments.format != "table" or "-" in arguments.sources or not arguments.sources):
        raise UsageError("--every is of sources that can be read again", "give a file, hosts, dns or recorded")
    if arguments.remove and (arguments.sources or arguments.every):
        raise UsageError("--remove is of one call without sources")
    if arguments.format == "csv" and (arguments.sources or arguments.remove):
        raise UsageError("--csv is of the list of names", "--json prints what was read")
    if whole(arguments.most, 1) is None:
        raise UsageError(f"invalid --most {arguments.most!r}: not a number of senders", "example: 1000")
    parse_duration(arguments.timeout)


def run(arguments: argparse.Namespace) -> int:
    """List, read or remove."""
    from ..api import naming
    from ..sql import StoreFolder

    check(arguments)
    privileges.lower(arguments.store, arguments.user)
    store = StoreFolder.open(arguments.store)
    if arguments.every:
        return keep(store, arguments, parse_duration(arguments.every) / NS_PER_S)
    if arguments.remove:
        print_imported([naming.remove(store, arguments.remove)], arguments.format)
    elif arguments.sources:
        print_imported(once(store, arguments), arguments.format)
    else:
        print_names(store, arguments.format)
    return 0


def limits_of(store: StoreFolder, arguments: argparse.Namespace) -> DnsLimits:
    """Returns the limits for asking DNS."""
    from ..api.naming import DnsLimits

    since, until = definition.span_of(store, arguments)
    timeout_s = parse_duration(arguments.timeout) / NS_PER_S
    return DnsLimits(arguments.server, int(arguments.most), timeout_s, since, until)


def read(store: StoreFolder, source: str, arguments: argparse.Namespace) -> NamesImported:
    """Read one source. Raises MburstError."""
    from ..api import naming

    if source == "-":
        if sys.stdin is None:
            raise MburstError("standard input is closed", "name a file, or pipe one in")
        if not files.is_utf8(text := sys.stdin.read()):
            raise MburstError("standard input: not text in UTF-8", "save it as UTF-8")
        return naming.import_text(store, text, "standard input")
    return naming.import_names(store, source, limits_of(store, arguments))


def once(store: StoreFolder, arguments: argparse.Namespace) -> list[NamesImported]:
    """Read all sources; a signal interrupts it at once. Raises MburstError and Interrupted."""
    done: list[NamesImported] = []
    if until_stopped(lambda stopped: done.extend(read(store, source, arguments) for source in arguments.sources)):
        raise Interrupted("interrupted", "sources that are done stay; the same command reads the rest")
    return done


def keep(store: StoreFolder, arguments: argparse.Namespace, every_s: float) -> int:
    """Read the sources every EVERY_S until a signal. A failure is reported, and the source is read again the next
    time."""

    def work(stopped: threading.Event) -> None:
        with store.place.watched(stopped.set):
            while not stopped.is_set():
                for source in arguments.sources:
                    try:
                        imported = read(store, source, arguments)
                        if imported.is_new:
                            report_lines(line_of(imported))
                    except MburstError as error:
                        store.place.check_after(error)
                        print_message(f"{error}" + (f" ({error.hint})" if error.hint else ""))
                stopped.wait(every_s)

    return exit_code(until_stopped(work))


def print_imported(done: list[NamesImported], form: str) -> None:
    """Print what was read."""
    if form == "json":
        output.write_json_value([imported._asdict() for imported in done])
    else:
        print_lines(*map(line_of, done))
    for imported in done:
        if imported.unanswered:
            print_message(f"DNS did not answer for {format_count(imported.unanswered, 'address', 'addresses')}")


def line_of(imported: NamesImported) -> str:
    """Returns a line such as "/etc/names.csv: 40 names (csv)"."""
    same = "" if imported.is_new else ", as before: nothing was added"
    return f"{imported.origin}: {format_count(imported.names, 'name')} ({imported.kind}){same}"


def print_names(store: StoreFolder, form: str) -> None:
    """Print all names, with the times for which they apply."""
    from ..analysis.read.names import held
    from ..sql.damage import readable

    with store.connect() as con, readable(con):
        rows = held(con)
    if form != "table":
        columns = tuple(rows[0]) if rows else ("prefix",)
        output.write(form, columns, ([row[column] for column in columns] for row in rows))
        return
    if rows:
        output.write("table", list(CELLS), ([cell(row) for cell in CELLS.values()] for row in rows))
    else:
        print_message(f"no names (`mburst names {store.path} FILE` reads some)")


def _time(ns: int | None) -> str:
    return "" if ns is None else format_time(ns)


CELLS: dict[str, Any] = {
    "address": lambda row: row["prefix"],
    "name": lambda row: row["name"],
    "service": lambda row: row["service"],
    "rack": lambda row: row["rack"],
    "owner": lambda row: row["owner"],
    "from (UTC)": lambda row: _time(row["from_ns"]),
    "until (UTC)": lambda row: _time(row["until_ns"]),
    "origin": lambda row: row["origin"],
}
