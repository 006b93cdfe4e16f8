"""`mburst switch-agent`: a gNMI server for this machine's ports."""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import MburstError, UsageError
from ..process import privileges
from ..process.stopping import exit_code, stopping
from ..units import format_count, parse_rate
from . import record, values

if TYPE_CHECKING:
    from ..gnmi_target.server import Endpoint
    from ..gnmi_target.watermarks import Watermarks

PRIORITY = -10  # nice(2) of the threads that are started from now on

DESCRIPTION = """Serve the ports of this machine by gNMI, for collectors: the depth of their queues, read every
millisecond, their counters and their neighbours, under the paths of OpenConfig. Use it on a Linux machine that
forwards packets (a bridge, a router, a white-box switch), or to try out a collector. It needs no privileges; as root
its readings are punctual under load, too. An address that other hosts can reach needs TLS, and --username or --tls-ca.
The password of --username is read from the environment: MBURST_AGENT_PASSWORD."""


def add_parser(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Adds the verb."""
    parser = verbs.add_parser(
        "switch-agent", help="serve this machine's queues and counters by gNMI", description=DESCRIPTION
    )
    parser.add_argument("ports", nargs="*", metavar="INTERFACE", help="ports to serve (default: those of all bridges)")
    parser.add_argument(
        "--listen",
        default="127.0.0.1:9339",
        metavar="ADDRESS:PORT",
        help="address to listen on, or unix:PATH; port 0 is any free port (default: %(default)s)",
    )
    parser.add_argument(
        "--link", type=values.rate, metavar="RATE", help="speed of the ports, if their drivers do not know it"
    )
    parser.add_argument(
        "--ethers",
        metavar="FILE",
        type=Path,
        default=Path("/etc/ethers"),
        help="names of the hosts behind the ports, in the format of ethers(5) (default: %(default)s)",
    )
    door = parser.add_argument_group("access control")
    door.add_argument("--tls-cert", metavar="FILE", type=Path, help="certificate to present, in PEM")
    door.add_argument("--tls-key", metavar="FILE", type=Path, help="key of the certificate, in PEM")
    door.add_argument("--tls-ca", metavar="FILE", type=Path, help="clients must present a certificate from this CA")
    door.add_argument("--username", metavar="NAME", help="clients must give this name and its password")
    door.add_argument(
        "--insecure", action="store_true", help="serve other hosts without TLS, or without --username or --tls-ca"
    )
    record.add_user_option(parser, "nobody; with unix:PATH, the user who starts it")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Find the ports, listen, serve."""
    from .collect import require

    require()
    import asyncio

    from ..gnmi_target.server import TargetServer
    from ..gnmi_target.tree import Tree, read_ethers
    from ..gnmi_target.watermarks import Watermarks

    entry = entry_of(arguments)
    with contextlib.suppress(OSError):  # needs root; without it, the readings compete with the rest of this process
        os.setpriority(os.PRIO_PROCESS, 0, PRIORITY)
    ports = served(arguments.ports)
    speed = parse_rate(arguments.link) if arguments.link else None
    watermarks = Watermarks(ports)
    agent = TargetServer(Tree(ports, watermarks, read_ethers(arguments.ethers), speed), entry, report)
    watermarks.failed = agent.fail

    async def serve() -> int:
        address = await agent.start()
        watermarks.start()
        path = entry.address.path
        privileges.settle_listening([os.path.dirname(path) or "."] if path else [], arguments.user)
        print(f"serving {format_count(len(ports), 'port')}, {queues_of(watermarks)}, on {address}"
              + ("" if entry.certificates else " without TLS"), flush=True)  # fmt: skip
        serving, loop = asyncio.ensure_future(agent.serve()), asyncio.get_running_loop()
        stop = partial(loop.call_soon_threadsafe, serving.cancel)
        with stopping(stop) as ended_by, contextlib.suppress(asyncio.CancelledError):
            await serving
        return exit_code(ended_by)

    async def work() -> int:
        try:
            return await serve()
        finally:
            await agent.close()

    try:
        return asyncio.run(work())
    finally:
        watermarks.close()


def report(line: str) -> None:
    """Report an event while it serves."""
    print(f"mburst: {line}", file=sys.stderr, flush=True)


def queues_of(watermarks: Watermarks) -> str:
    return f"{len({port for port, _ in watermarks.queues}) or 'none'} with a queue"


def entry_of(arguments: argparse.Namespace) -> Endpoint:
    """Returns the address for clients and their credentials. Raises MburstError."""
    from ..gnmi_target.server import Endpoint
    from ..listening.addresses import Protection, parse
    from ..listening.tls import Certificates

    if bool(arguments.tls_cert) != bool(arguments.tls_key):
        raise UsageError("--tls-cert and --tls-key go together")
    if arguments.tls_ca and not arguments.tls_cert:
        raise UsageError("--tls-ca needs --tls-cert and --tls-key")
    password = _password_of(arguments.username)
    certificates = Certificates(arguments.tls_cert, arguments.tls_key, arguments.tls_ca) if arguments.tls_cert else None
    address = parse(arguments.listen)
    secret, client_ca = "password" if arguments.username else "", bool(arguments.tls_ca)
    protection = Protection(bool(certificates), secret, client_ca, "--tls-cert and --tls-key", "--username or --tls-ca")
    if lacking := protection.lacking(address):
        if not arguments.insecure:
            raise UsageError(lacking, "add --insecure to allow this")
        report(f"note: {lacking}")
    return Endpoint(address, certificates, arguments.username or "", password)


def _password_of(user: str | None) -> str:
    """Returns the password of --username. Raises UsageError, also if either cannot be sent in the metadata of gRPC."""
    password = os.environ.get("MBURST_AGENT_PASSWORD", "")
    if user is None:
        return password
    if not user:  # without a name, everybody would be let in
        raise UsageError("--username is empty", "leave it out, or name the user")
    if not password:
        raise UsageError("--username needs a password in the environment", "set MBURST_AGENT_PASSWORD")
    for name, text in (("--username", user), ("MBURST_AGENT_PASSWORD", password)):
        if not (text.isascii() and text.isprintable()):
            raise UsageError(f"{name}: no client can send it", "letters, digits, blanks and signs of ASCII")
    return password


def served(named: list[str]) -> list[str]:
    """Returns the ports to serve: the named ones, or those of all bridges. Raises MburstError."""
    from ..gnmi_target.netlink import interfaces

    found: dict[str, Any] = {interface.name: interface for interface in interfaces()}
    for name in named:
        if name not in found:
            raise MburstError(f"{name}: no such interface", f"there are {', '.join(sorted(found))}")
    ports = list(dict.fromkeys(named)) or [name for name, interface in found.items() if interface.master]
    if not ports:
        raise UsageError("no bridge on this host", "name the interfaces to serve")
    return ports
