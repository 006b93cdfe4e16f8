"""`mburst reflect`: answer probes."""

from __future__ import annotations

import argparse
import socket
import time

from ..errors import UsageError
from ..process import privileges
from ..process.stopping import exit_code, stopping
from ..telemetry.probe.admission import CONNECTIONS, PEER_RATE, RATE, Admission
from ..units import format_bytes, format_count, parse_duration, whole
from . import record, values

DESCRIPTION = """Answer probes until Ctrl-C: UDP in the format of STAMP (RFC 8762, unauthenticated; TWAMP Light senders
are answered, too), and TCP echo, on the same port. Needs no special rights."""
MOST_RATE = 10_000_000
DELAY = """delay each answer as a queue on the return path would: constant:TIME, uniform:LEAST:MOST,
normal:MEAN:DEVIATION, pareto:LEAST:INDEX, pareto-normal:MEAN:DEVIATION (as netem has it) or file:CDF.csv (delay and
share on each line)"""


def add_parser(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Adds the verb."""
    parser = verbs.add_parser("reflect", help="answer probes", description=DESCRIPTION)
    parser.add_argument(
        "--listen",
        action="append",
        default=[],
        metavar="ADDRESS[:PORT]",
        help="address to listen on, or just :PORT; may be repeated (default: every address, port 8620; "
        "STAMP's own port is 862)",
    )
    parser.add_argument("--delay", metavar="SPEC", help=DELAY)
    parser.add_argument(
        "--allow",
        action="append",
        default=[],
        metavar="NETWORK",
        help="answer only addresses of this network, such as 10.0.0.0/8 or 2001:db8::/32; may be "
        "repeated (default: everybody)",
    )
    parser.add_argument(
        "--peer-limit",
        default=f"{PEER_RATE:.0f}/s",
        metavar="N/s",
        help="maximum of answers per second to one address (IPv6: one /64; default: %(default)s)",
    )
    parser.add_argument(
        "--limit",
        default=f"{RATE:.0f}/s",
        metavar="N/s",
        help="maximum of answers per second in total (default: %(default)s)",
    )
    parser.add_argument(
        "--connections",
        type=int,
        default=CONNECTIONS,
        metavar="N",
        help="maximum of TCP connections on each address (default: %(default)s)",
    )
    parser.add_argument(
        "--stamp-only",
        action="store_true",
        help="ignore requests shorter than the 44 bytes of STAMP, as TWAMP Light may send; only such "
        "requests get answers longer than themselves",
    )
    parser.add_argument("--seed", type=int, metavar="N", help="seed of the delays; the same seed gives the same delays")
    parser.add_argument(
        "--duration", type=values.duration, metavar="TIME", help="duration, such as 60s (default: until Ctrl-C)"
    )
    record.add_user_option(parser, "nobody")
    parser.set_defaults(run=run, as_part=as_part)


def as_part(arguments: argparse.Namespace) -> None:
    """Check what a part of `mburst run` requires. Raises UsageError."""
    from ..telemetry.probe import delays
    from ..telemetry.probe.stamp import DEFAULT_PORT
    from ..telemetry.probe.targets import split

    admission(arguments)
    for text in arguments.listen:
        split(text, DEFAULT_PORT)
    if arguments.delay:
        delays.parse(arguments.delay, arguments.seed)


def run(arguments: argparse.Namespace) -> int:
    """Listen, answer, and print the number of answers in the end."""
    from ..services.prober import hardware_serves
    from ..telemetry.probe import delays, stamp
    from ..telemetry.probe.reflector import Reflector

    duration_ns = parse_duration(arguments.duration) if arguments.duration else None
    delay = delays.parse(arguments.delay, arguments.seed) if arguments.delay else None
    addresses = listening_on(arguments.listen)
    named = [address for address, _ in addresses if address not in ("0.0.0.0", "::")]
    reflector = Reflector(
        addresses,
        delay,
        hardware=hardware_serves(named),
        admission=admission(arguments),
        least_bytes=stamp.BASE_BYTES if arguments.stamp_only else stamp.LEAST_SENDER_BYTES,
        connections=arguments.connections,
    )
    privileges.confine([], [])
    privileges.settle(arguments.user)
    try:
        with stopping(reflector.stop) as ended_by:
            listening = ", ".join(f"[{host}]:{port}" if ":" in host else f"{host}:{port}" for host, port in addresses)
            print(
                f"reflecting on {listening}, UDP and TCP"
                + (f", answers held back by {arguments.delay}" if delay else ""),
                flush=True,
            )
            reflector.serve(None if duration_ns is None else time.monotonic_ns() + duration_ns)
        print(
            f"answered {format_count(reflector.answered, 'probe')} in {format_count(reflector.sessions, 'session')}"
            + (f", echoed {format_bytes(reflector.echoed)} over TCP" if reflector.echoed else "")
            + (f", ignored {format_count(reflector.ignored, 'other datagram')}" if reflector.ignored else "")
            + (f", refused {reflector.limited:,} beyond --limit or --peer-limit" if reflector.limited else "")
            + (f", dropped {reflector.overfull:,} beyond what --delay can hold" if reflector.overfull else "")
            + (
                f", dropped {reflector.dropped:,}: socket buffer full (raise sysctl net.core.rmem_max)"
                if reflector.dropped
                else ""
            )
        )
    finally:
        reflector.close()
    return exit_code(ended_by)


def admission(arguments: argparse.Namespace) -> Admission:
    """Returns who is answered, and how often. Raises UsageError."""
    from ipaddress import ip_network

    if arguments.connections < 1:
        raise UsageError(f"--connections {arguments.connections}: less than one")
    networks = []
    for text in arguments.allow:
        try:
            networks.append(ip_network(text, strict=False))
        except ValueError:
            raise UsageError(f"--allow {text}: not a network", "examples: 10.0.0.0/8, 2001:db8::/32") from None
    return Admission(
        networks, parse_limit("--peer-limit", arguments.peer_limit), parse_limit("--limit", arguments.limit)
    )


def parse_limit(option: str, text: str) -> float:
    """Returns the answers per second of "1000/s" or "1000". Raises UsageError."""
    number = whole(text.strip().removesuffix("/s"), 1, MOST_RATE)
    if number is None:
        raise UsageError(f"{option} {text}: not a rate from 1 to {MOST_RATE:,} a second", "example: 1000/s")
    return float(number)


def listening_on(wanted: list[str]) -> list[tuple[str, int]]:
    """Returns the addresses and ports of --listen; by default, all addresses of this host. Raises UsageError."""
    from ..telemetry.probe.stamp import DEFAULT_PORT
    from ..telemetry.probe.targets import split

    found = []
    for text in wanted or [f":{DEFAULT_PORT}"]:
        host, port = split(text, DEFAULT_PORT)
        for address in [host] if host else ["0.0.0.0", *(["::"] if has_ipv6() else [])]:
            try:
                numeric = socket.getaddrinfo(address, port, type=socket.SOCK_DGRAM, flags=socket.AI_PASSIVE)[0][4][0]
            except (socket.gaierror, UnicodeError):
                raise UsageError(f"--listen {text}: {address!r} is not an address of this host") from None
            found.append((str(numeric), port))
    return found


def has_ipv6() -> bool:
    """Whether this host supports IPv6."""
    try:
        with socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as sock:
            sock.bind(("::", 0))
        return True
    except OSError:
        return False
