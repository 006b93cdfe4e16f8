"""`mburst probe`: the latency to other hosts and back, and where the time is spent."""

from __future__ import annotations

import argparse
import re
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from .. import temporary
from ..errors import MburstError, UsageError
from ..messages import clear_progress, print_lines, print_message
from ..process import privileges
from ..process.stopping import exit_code
from ..units import NS_PER_MINUTE, parse_duration, whole
from . import output, record, values
from .probe_words import ProbeLine, described

if TYPE_CHECKING:
    from ..sql import StoreFolder
    from ..telemetry.probe.prober import ProbePlan
    from ..telemetry.probe.targets import ProbeTarget

DESCRIPTION = """Probe hosts at fixed or random times, with stamps of application, kernel and network interface on both
ends, until Ctrl-C. For udp, the other end runs `mburst reflect` (or another reflector of STAMP or TWAMP Light); for
tcp, that or any echo service; icmp needs nothing there."""
FASTEST, MOST_PORTS = 5000, 64
MOST_TOGETHER = 15_000  # probes per second; beyond it, one core is not enough (bench/bench_probe.py)
PROTOCOLS = {"udp": (64, 44), "tcp": (64, 16), "icmp": (56, 16)}  # usual and smallest size
MOST_BYTES = 65_000
SECONDS = {None: 1, "s": 1, "m": 60, "min": 60, "h": 3600}  # units of a rate
DSCP = {
    "ef": 46,
    **{f"cs{n}": 8 * n for n in range(8)},
    **{f"af{a}{b}": 8 * a + 2 * b for a in range(1, 5) for b in range(1, 4)},
}


def add_parser(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Adds the verb."""
    parser = verbs.add_parser("probe", help="measure latency to other hosts", description=DESCRIPTION)
    parser.add_argument("targets", nargs="+", metavar="HOST[:PORT]", help="hosts to probe (default port: 8620)")
    parser.add_argument(
        "-o", "--store", metavar="STORE", help="folder of a store to keep the probes in; made if it does not exist"
    )
    parser.add_argument("--json", action="store_true", help="print the measurements as JSON")
    when = parser.add_argument_group("when")
    when.add_argument(
        "--rate",
        default="1000/s",
        metavar="N/s",
        help="probes to each host a second, up to 5000, or a minute (N/m) or an hour (N/h) (default: %(default)s)",
    )
    when.add_argument(
        "--spacing",
        choices=["poisson", "fixed"],
        default="poisson",
        help="poisson: random, so that no rhythm is missed; fixed: evenly spaced (default: %(default)s)",
    )
    when.add_argument(
        "--duration", type=values.duration, metavar="TIME", help="duration, such as 60s (default: until Ctrl-C)"
    )
    when.add_argument("--count", type=int, metavar="N", help="number of probes to each host")
    when.add_argument(
        "--timeout",
        default="2s",
        type=values.duration,
        metavar="TIME",
        help="a probe without an answer by then is lost (default: %(default)s)",
    )
    when.add_argument("--seed", type=int, metavar="N", help="seed of the random sending times")
    how = parser.add_argument_group("how")
    how.add_argument(
        "--protocol",
        choices=list(PROTOCOLS),
        default="udp",
        help="udp: STAMP; tcp: echo on a kept connection; icmp: ping (default: %(default)s)",
    )
    how.add_argument("--size", type=int, metavar="BYTES", help="bytes of a probe's payload (default: 64; icmp: 56)")
    how.add_argument(
        "--source-ports",
        metavar="N|PORTS",
        help=f"ports to send from in turn, each a separate path: their number (up to {MOST_PORTS}), or the ports, "
        "such as 40000-40007",
    )
    how.add_argument("--source", default="", metavar="ADDRESS", help="source address of the probes")
    how.add_argument("--dscp", default="0", metavar="CLASS", help="0 to 63, or a name such as ef or af41")
    how.add_argument(
        "-4", dest="family", action="store_const", const=socket.AF_INET, default=socket.AF_UNSPEC, help="IPv4 only"
    )
    how.add_argument("-6", dest="family", action="store_const", const=socket.AF_INET6, help="IPv6 only")
    how.add_argument("--host", help="name of this end in the store (default: the host's name)")
    record.add_user_option(parser)
    parser.set_defaults(run=run, as_part=as_part)


def as_part(arguments: argparse.Namespace) -> None:
    """Check what a part of `mburst run` requires. Raises UsageError."""
    from ..telemetry.probe.stamp import DEFAULT_PORT
    from ..telemetry.probe.targets import host_of

    planned(arguments)
    for text in arguments.targets:
        host_of(text, DEFAULT_PORT)


def run(arguments: argparse.Namespace) -> int:
    """Probe, store, and print the results. Returns 1 if a host did not resolve or never answered, unless a signal ended
    the probing, perhaps before an answer came. A host without a probe in this time has not failed."""
    plan = planned(arguments)
    targets, unresolved = resolved(arguments)
    privileges.lower(arguments.store or temporary.place(), arguments.user)
    if plan.rate * len(targets) > MOST_TOGETHER:
        print_message(
            f"{plan.rate * len(targets):,.0f} probes a second exceed what one process sends in time: what is late "
            "counts as time in this host"
        )
    from ..api.probing import result_of
    from ..services.prober import probe

    with privileges.raised():
        plan = with_hardware(plan, targets)
    with kept(arguments.store) as store:
        # The temporary folder must be removable in the end.
        privileges.confine([], [arguments.store or temporary.place()], made_in=store.made_in)
        line = ProbeLine() if sys.stderr.isatty() else None
        done = probe(
            store,
            targets,
            plan,
            host=arguments.host or socket.gethostname(),
            report=print_message,
            on_rows=line.show if line else None,
        )
        if line:
            clear_progress()
        found = result_of(store, done)
    if arguments.json:
        output.write_json_value(found.to_dict())
    else:
        print_lines(*"\n\n".join(described(found)).split("\n"))
        if arguments.store:
            print_lines("", f"kept in {arguments.store}")
    if done.ended_by:
        return exit_code(done.ended_by)
    silent = {names["dst"] for names, count in done.counts if count.sent and not count.answered}
    probed = {names["dst"] for names, count in done.counts if count.sent}
    for name in sorted({names["dst"] for names, _ in done.counts} - probed):
        print_message(f"{name}: no probe was due")
    for name in sorted(silent):
        print_message(f"{name}: no answer")
    return 1 if silent or unresolved or done.left_out else 0


@contextmanager
def kept(path: str | None) -> Iterator[StoreFolder]:
    """Yields the store for the probes, or a temporary one."""
    from ..sql import StoreFolder

    if path:
        with StoreFolder.created(path) as store:
            yield store
        return
    with temporary.folder("mburst-") as folder:
        yield StoreFolder.create(f"{folder}/store")


def resolved(arguments: argparse.Namespace) -> tuple[list[ProbeTarget], bool]:
    """Returns the hosts, and whether some were left out because their names do not resolve. Raises MburstError if none
    does."""
    from ..telemetry.probe.prober import kind_of
    from ..telemetry.probe.stamp import DEFAULT_PORT
    from ..telemetry.probe.targets import resolve

    targets, failures = [], []
    for text in dict.fromkeys(arguments.targets):
        try:
            targets.append(resolve(text, DEFAULT_PORT, kind_of(arguments.protocol), arguments.family))
        except UsageError:
            raise
        except MburstError as error:
            failures.append(error)
    if not targets:
        raise failures[0]
    for failure in failures:
        print_message(str(failure))
    return targets, bool(failures)


def with_hardware(plan: ProbePlan, targets: list[ProbeTarget]) -> ProbePlan:
    """Returns PLAN with hardware timestamps if the interfaces that lead to the targets support them."""
    from dataclasses import replace

    from ..services.prober import hardware_serves, local_address

    try:
        return replace(plan, hardware=hardware_serves(sorted({local_address(target) for target in targets})))
    except MburstError:  # a target has no route, which its probes will show
        return plan


def planned(arguments: argparse.Namespace) -> ProbePlan:
    """Returns the plan from the options. Raises UsageError."""
    from ..telemetry.probe.prober import ProbePlan
    from ..telemetry.probe.targets import check_without_port

    if arguments.protocol == "icmp":
        for text in arguments.targets:
            check_without_port(text)
    usual, least = PROTOCOLS[arguments.protocol]
    size = usual if arguments.size is None else arguments.size
    if not least <= size <= MOST_BYTES or (arguments.protocol == "udp" and least < size < least + 4):
        raise UsageError(
            f"--size {size}: a probe over {arguments.protocol} has "
            + ("44, or 48" if arguments.protocol == "udp" else str(least))
            + f" to {MOST_BYTES:,} bytes"
        )
    if arguments.count is not None and arguments.count < 1:
        raise UsageError("--count must be at least 1")
    timeout_ns = parse_duration(arguments.timeout)
    if not 10**6 <= timeout_ns <= NS_PER_MINUTE:
        raise UsageError(f"--timeout {arguments.timeout} is not between 1ms and 60s")
    return ProbePlan(
        protocol=arguments.protocol,
        rate=parse_frequency(arguments.rate),
        poisson=arguments.spacing == "poisson",
        duration_ns=parse_duration(arguments.duration) if arguments.duration else None,
        count=arguments.count,
        timeout_ns=timeout_ns,
        size=size,
        source=arguments.source,
        source_ports=parse_ports(arguments.source_ports, arguments.protocol),
        dscp=parse_dscp(arguments.dscp),
        seed=arguments.seed,
    )


def parse_frequency(text: str) -> float:
    """Returns the probes per second of "1000/s" or "1000", "6/m", "1/h". Raises UsageError."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)(?:/(s|m|min|h))?", text.strip())
    rate = float(match[1]) / SECONDS[match[2]] if match else 0.0
    if not 1 / 3600 <= rate <= FASTEST:
        raise UsageError(
            f"--rate {text}: not a rate from one an hour to {FASTEST:,} a second", "examples: 1000/s, 30/m, 1/h"
        )
    return rate


def parse_ports(text: str | None, protocol: str) -> tuple[int, ...]:
    """Returns source ports, with 0 for any: "4" means four of them; "40000-40003" and "40000,40007" name them. Raises
    UsageError."""
    if text is None:
        return (0,)
    if protocol == "icmp":
        raise UsageError("--source-ports: icmp has no ports")
    if count := whole(text, 1, MOST_PORTS):
        return (0,) * count
    ports: list[int] = []
    for part in text.split(","):
        match = re.fullmatch(r"(\d{1,5})(?:-(\d{1,5}))?", part)
        first, last = (int(match[1]), int(match[2] or match[1])) if match else (0, 0)
        if not 0 < first <= last < 65536 or last - first >= MOST_PORTS:
            raise UsageError(
                f"--source-ports {text}: {part!r} is neither a port nor a range of up to {MOST_PORTS}",
                "examples: 8 or 40000-40007 or 40000,40010",
            )
        ports += range(first, last + 1)
    if len(set(ports)) < len(ports) or len(ports) > MOST_PORTS:
        raise UsageError(f"--source-ports {text}: twice the same, or more than {MOST_PORTS}")
    return tuple(ports)


def parse_dscp(text: str) -> int:
    """Returns a DSCP from a number or a name. Raises UsageError."""
    value = DSCP.get(text.lower(), whole(text, most=63))
    if value is None:
        raise UsageError(f"--dscp {text}: not 0 to 63 and not a name such as ef, cs1 or af41")
    return value
