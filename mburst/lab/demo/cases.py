"""The data of a demo: a rack in a box that is recorded live, or a simulation. Both leave the same files."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ...api.asked import RecordOptions
from ...units import format_bytes, format_duration, format_rate, format_share
from ..rack.verbs import SWITCH, ExperimentObserver
from .commands import call, show

if TYPE_CHECKING:
    from ..rack import Rack
    from ..rack.sample import Sampled
    from ..rack.verbs import Verb

SENDERS = 40


@dataclass(frozen=True)
class DemoCase:
    """The incast of a cache server in a store, the truth about it, and what is still to be imported."""

    senders: int
    rounds: tuple[tuple[int, int], ...]  # first and last frame of each, Unix ns
    imports: tuple[list[str], ...] = ()  # arguments of `mburst import`
    round_ns: int = 0  # time of a round at line rate; 0 if nothing can delay it
    stolen: float = 0.0  # share of the processors' time that a hypervisor took
    switch: str = ""  # the device that also sampled its own port


RECORD: RecordOptions = {"link": "1G", "host": "cache", "rack": "r1"}  # settings of the recording in every demo
RECORD_WORDS = [word for name, value in RECORD.items() for word in (f"--{name}", str(value))]


class Narrator(ExperimentObserver):
    """Prints the progress of the experiment."""

    def built(self, rack: Rack) -> None:
        plan = rack.plan
        print(
            f"A rack in a box: {plan.senders} databases, a switch, a cache server and an API host, each in a\n"
            "network namespace of this machine. Again and again, all databases answer the cache server with\n"
            f"{format_bytes(rack.bytes_per_sender)} at once, through a switch port of {format_rate(plan.link_bps)} "
            f"with {format_bytes(plan.limit_bytes)} of buffer: real packets, a real queue.\n"
            "On the cache server (cache), the switch (tor) and the API host (api) run:"
        )

    def starts(self, rack: Rack, verb: Verb) -> None:
        show(["ip", "netns", "exec", rack.plan.namespace(verb.host), "mburst", *verb.words])

    def ended(self, rack: Rack, verb: Verb, output: str) -> None:
        print(f"\n# mburst {verb.words[0]} printed:\n{output.rstrip()}")

    def exports(self, rack: Rack) -> None:
        print(
            "\nTo collect, the switch also sends the bytes of that port and the depth of its queue, sampled each\n"
            "millisecond, by OTLP, as SONiC's high-frequency telemetry does.",
            flush=True,
        )

    def exported(self, sampled: Sampled) -> None:
        late = format_share(sampled.late / max(sampled.readings, 1))
        print(
            f"\n# The switch took {sampled.readings:,} samples, {late} of them more than 50 µs late; "
            f"{sampled.missed:,} are missing, the longest time without one was {format_duration(sampled.longest_ns)}."
        )


def live(folder: Path, seconds: float, seed: int) -> DemoCase:
    """Build a rack in a box, and record, probe and read it live into FOLDER/store. Raises RackUnavailable if that is
    not possible."""
    from ..rack import record_rack

    recorded = record_rack(folder, seconds, SENDERS, seed=seed, record=RECORD_WORDS, onlooker=Narrator())
    first_ns = recorded.rounds[0].t_req_ns
    busy, second = (_met(recorded.store, name, first_ns) for name in ("cache", "cache-nic2"))
    quiet = _met(recorded.store, "cache", recorded.quiet_from_ns, first_ns)
    print(f"\nProbes through that port while the databases answered: {busy}.")
    print(f"Before they began: {quiet}.")
    print(f"To the server's second interface, meanwhile: {second}. Why?")
    rounds = tuple((done.t_first_ns, done.t_last_ns) for done in recorded.rounds)
    return DemoCase(SENDERS, rounds, round_ns=recorded.round_ns, stolen=recorded.stolen, switch=SWITCH)


def simulated(folder: Path, seed: int) -> DemoCase:
    """Simulate the case and record its capture file into FOLDER/store."""
    from ..simulate import Scenario, simulate

    scenario = Scenario(seed=seed, senders=SENDERS)
    case = simulate(scenario)
    paths = case.write(folder)
    print(
        f"Simulated with seed {seed}: {scenario.rounds} rounds in {format_duration(scenario.length_ns())}; in each, "
        f"{scenario.senders} databases answer\n"
        f"one cache server with {format_bytes(scenario.bytes_per_sender)} at once, through a switch port of "
        f"{format_rate(scenario.link_bps)} with {format_bytes(scenario.buffer_bytes)} of buffer.\n"
        f"Probes through that port: {_round_trips(paths['probes'])}. Why?\n"
        f"{paths['cache']} has the {len(case.frames):,} frames that the cache server received and sent."
    )
    call(["record", str(paths["cache"]), "-o", str(folder / "store"), *RECORD_WORDS])
    rounds = tuple((int(row["t_first_ns"]), int(row["t_last_ns"])) for row in case.rounds)
    imports = (["probes", str(paths["probes"]), "--protocol", "udp"], ["queues", str(paths["queues-1ms"])])
    return DemoCase(scenario.senders, rounds, imports)


def unsampled(store: Path, switch: str) -> list[tuple[int, int]]:
    """Returns the times (Unix ns) in which SWITCH took no sample of its port to the cache server."""
    from ...sql import StoreFolder

    with StoreFolder.open(store).connect() as con:
        return con.execute(
            "SELECT start_ns, end_ns FROM gaps WHERE host = $1 AND direction = 'out' AND end_ns IS NOT NULL", [switch]
        ).fetchall()


def unfit_width(store: Path, switch: str, bin_ns: int) -> int | None:
    """Returns the width of the bins of SWITCH of which BIN_NS is not a multiple, ns; None if it is of all."""
    from ...sql import StoreFolder

    with StoreFolder.open(store).connect() as con:
        [(width_ns,)] = con.execute(
            "SELECT max(bin_ns) FROM recordings WHERE host = $1 AND $2 % bin_ns <> 0", [switch, bin_ns]
        ).fetchall()
    return None if width_ns is None else int(width_ns)


def _met(store: Path, to: str, since_ns: int, until_ns: int | None = None) -> str:
    """Returns the latency of the probes to an interface that were sent in a time."""
    from ...analysis.answers.paths import LEVELS, ProbeSelection, read_met
    from ...sql import StoreFolder

    with StoreFolder.open(store).connect() as con:
        [met] = read_met(con, ProbeSelection(dst=to, since_ns=since_ns, until_ns=until_ns))
    levels = dict(zip(LEVELS, met.measured["round_trip"].levels, strict=True))
    return _round_trip(levels[0.5], levels[0.99], met.lost, met.sent)


def _round_trip(median: float | None, tail: float | None, lost: int, sent: int) -> str:
    """Returns a text such as "round trip p50 17.3 µs, p99 27.9 ms, 0 of 9,860 lost"; an unknown level is left out."""
    known = ((name, level) for name, level in (("p50", median), ("p99", tail)) if level is not None)
    levels = [f"{name} {format_duration(level)}" for name, level in known]
    return f"round trip {', '.join(levels)}, {lost:,} of {sent:,} lost"


def _round_trips(path: Path) -> str:
    """Returns the same text for a CSV file of probes."""
    import numpy as np

    with path.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    answered = [int(row["rx_ns"]) - int(row["tx_ns"]) for row in rows if row["lost"] == "0"]
    median, tail = np.percentile(answered, [50, 99])
    return _round_trip(median, tail, len(rows) - len(answered), len(rows))
