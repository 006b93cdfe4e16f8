"""`mburst probe`: the latency to other hosts and back, and where the time is spent."""

from __future__ import annotations

import argparse
import re
import socket
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from .. import privileges
from ..columns import aligned, widths_of
from ..errors import MburstError, UsageError
from ..names import print_lines, say, say_progress
from ..units import format_count, format_duration, format_share, parse_duration, whole
from . import output, record

if TYPE_CHECKING:
    from ..analysis.answers.paths import Distribution, PathProbes
    from ..services.prober import PathCounts
    from ..sql import StoreFolder
    from ..telemetry.probe.exchanges import ProbeCounts
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
    when.add_argument("--duration", metavar="TIME", help="duration, such as 60s (default: until Ctrl-C)")
    when.add_argument("--count", type=int, metavar="N", help="number of probes to each host")
    when.add_argument(
        "--timeout",
        default="2s",
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
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Probe, store, and print the results. Returns 1 if a host did not resolve or never answered."""
    plan = planned(arguments)
    targets, unresolved = resolved(arguments)
    privileges.lower(arguments.store or tempfile.gettempdir(), arguments.user)
    if plan.rate * len(targets) > MOST_TOGETHER:
        say(
            f"{plan.rate * len(targets):,.0f} probes a second exceed what one process sends in time: what is late "
            "counts as time in this host"
        )
    from ..analysis.answers.paths import ProbeSelection, read_met, together
    from ..services.prober import probe

    with privileges.raised():
        plan = with_hardware(plan, targets)
    with kept(arguments.store) as store:
        # The temporary folder must be removable in the end.
        privileges.confine([], [arguments.store or tempfile.gettempdir()], made_in=store.made_in)
        line = ProbeLine() if sys.stderr.isatty() else None
        batch, counts, left_out, interrupted = probe(
            store,
            targets,
            plan,
            host=arguments.host or socket.gethostname(),
            report=say,
            on_rows=line.show if line else None,
        )
        if line:
            line.clear()
        with store.connect() as con:
            found = read_met(con, ProbeSelection(batch=batch))
        found += together(found)
    if arguments.json:
        output.write_json_value(facts(found, counts))
    else:
        print_lines(*"\n\n".join(described(found, counts)).split("\n"))
        if arguments.store:
            print_lines("", f"kept in {arguments.store}")
    silent = sorted({names["dst"] for names, count in counts if not count.answered and not interrupted})
    for name in silent:
        say(f"{name}: no answer")
    return 130 if interrupted else 1 if silent or unresolved or left_out else 0


@contextmanager
def kept(path: str | None) -> Iterator[StoreFolder]:
    """Yields the store for the probes, or a temporary one."""
    from ..sql import StoreFolder

    if path:
        with StoreFolder.created(path) as store:
            yield store
        return
    with tempfile.TemporaryDirectory(prefix="mburst-") as folder:
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
        say(str(failure))
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
    if not 10**6 <= timeout_ns <= 60 * 10**9:
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


# --- output -----------------------------------------------------------------------------------------------------------


def counts_of(met: PathProbes, counts: PathCounts) -> ProbeCounts:
    """Returns the counts of the probes of a path, or of all paths to a target."""
    from ..telemetry.probe.exchanges import total

    return total(
        [count for names, count in counts if names["dst"] == met.dst and (met.paths > 1 or names["src"] == met.src)]
    )


def facts(found: list[PathProbes], counts: PathCounts) -> list[dict[str, Any]]:
    """Returns an object for each path, and then one for each target with several paths, for JSON. Times are in ns."""
    rows = []
    for met in found:
        count, clocks = counts_of(met, counts), met.clocks
        rows.append(
            {
                "src": met.src,
                "dst": met.dst,
                "protocol": met.protocol,
                "paths": met.paths,
                "stamps": met.stamps,
                "start_ns": met.start_ns,
                "end_ns": met.end_ns,
                "n": met.sent - met.lost,
                **{
                    name: getattr(count, name)
                    for name in (
                        "sent",
                        "lost",
                        "lost_back",
                        "late",
                        "overflowed",
                        "duplicates",
                        "reordered",
                        "stray",
                        "restarts",
                    )
                },
                "clocks": clocks
                and {
                    "kept": clocks.kept,
                    "offset_ns": clocks.offset_ns,
                    "drift_ppm": clocks.drift_ppm,
                    "uncertainty_ns": clocks.uncertainty_ns,
                    "steps": clocks.steps,
                },
                **{name: quantiles_of(measured) for name, measured in met.measured.items()},
            }
        )
    return rows


def quantiles_of(measured: Distribution) -> dict[str, Any]:
    """Returns a distribution for JSON."""
    from ..analysis.answers.paths import LEVELS

    levels = {
        f"p{100 * level:g}_ns".replace(".", ""): value for level, value in zip(LEVELS, measured.levels, strict=True)
    }
    return {"n": measured.n, "min_ns": measured.least, **levels, "max_ns": measured.largest}


def described(found: list[PathProbes], counts: PathCounts) -> list[str]:
    """Returns a heading, a table and notes for each path, as text."""
    from ..dashboards.report.path_words import clock_note, sample_note

    return [
        "\n".join(
            filter(None, [heading(met, counts_of(met, counts)), table(met), clock_note(met.clocks), sample_note(met)])
        )
        for met in found
    ]


def heading(met: PathProbes, count: ProbeCounts) -> str:
    """Returns the ends of a path, and the counts of its probes."""
    from ..dashboards.report.path_words import name_of, stamped_by

    back = f", {count.lost_back:,} of them on the way back" if count.lost and count.lost_back is not None else ""
    parts = [
        f"{format_count(met.sent, 'probe')} in {format_duration(met.end_ns - met.start_ns)}",
        f"{met.lost:,} lost" + (f" ({format_share(met.lost / met.sent)}{back})" if met.lost else ""),
    ]
    parts += [
        f"{value:,} {one if value == 1 else many}"
        for value, one, many in (
            (count.overflowed, "answer dropped: socket buffer full", "answers dropped: socket buffer full"),
            (count.late, *["answered after the timeout"] * 2),
            (count.duplicates, *["duplicate answers"] * 2),
            (count.reordered, *["out of order"] * 2),
            (count.stray, "invalid answer", "invalid answers"),
            (count.restarts, "restart of the other end", "restarts of the other end"),
        )
        if value
    ]
    stamps = stamped_by(met)
    return f"{name_of(met)}: {', '.join(parts)}" + (f"; stamps by {stamps}" if stamps else "")


def table(met: PathProbes) -> str:
    """Returns the measured distributions as a table."""
    from ..dashboards.report import path_words

    rows = [["", "n", *path_words.HEADS], *path_words.table(met)]
    widths, right = widths_of(rows), [False, *(True for _ in rows[0][1:])]
    return "\n".join(aligned(row, widths, right) for row in rows) if len(rows) > 1 else "no answer"


class ProbeLine:
    """A progress line on standard error, updated with each batch of probes that is stored."""

    def __init__(self) -> None:
        self.sent = self.lost = 0

    def show(self, rows: Any) -> None:
        """Take rows of the table probes that were just stored."""
        import numpy as np

        from ..analysis.model.distributions import quantile

        lost = rows.column("lost").to_numpy()
        self.sent += len(lost)
        self.lost += int(lost.sum())
        took = rows.column("app_recv_ns").to_numpy() - rows.column("app_send_ns").to_numpy()
        took = took[~np.isnan(took)]  # NaN for probes without an answer, and for those in flight when the clock was set
        text = f"{format_count(self.sent, 'probe')}, {self.lost:,} lost"
        if len(took):
            known = [(name, quantile(np.sort(took), share)) for name, share in (("p50", 0.5), ("p99", 0.99))]
            levels = ", ".join(f"{name} {format_duration(value)}" for name, value in known if value is not None)
            text += f", the last ones {levels} (application)"
        say_progress(text)

    def clear(self) -> None:
        print("\r\033[K", end="", file=sys.stderr, flush=True)
