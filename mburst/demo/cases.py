"""Where a demo's data come from: a rack in a box that is recorded live, or a simulation. Both leave the same files."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ..units import format_bytes, format_duration, format_rate
from .commands import call, show

if TYPE_CHECKING:
    from ..netlab import Rack

SENDERS = 40


@dataclass(frozen=True)
class Case:
    """A cache server's incast in a store, the truth about it, and what is still to be imported."""

    senders: int
    rounds: tuple[tuple[int, int], ...]  # first and last frame of each, Unix ns
    probes: tuple[Path, ...]
    queues: Path


def record_options(store: Path) -> list[str]:
    """How the demo records, whatever it records from."""
    return ["-o", str(store), "--link", "1G", "--host", "cache", "--rack", "r1"]


def live(folder: Path, seconds: float, seed: int) -> Case:
    """Build a rack in a box and record it live into FOLDER/store. Raises RackUnavailable where there can be none."""
    from ..netlab import record_rack

    recorded = record_rack(folder, seconds, SENDERS, seed=seed, capture="store", recorder=_record)
    rounds = tuple((done.t_first_ns, done.t_last_ns) for done in recorded.rounds)
    print(f"\nProbes through that port while the databases answered: {_round_trips(recorded.probes)}.")
    print(f"Before they began: {_round_trips(recorded.probes_quiet)}.")
    print(f"To the server's second interface, meanwhile: {_round_trips(recorded.probes_second_nic)}. Why?")
    return Case(SENDERS, rounds, (recorded.probes, recorded.probes_quiet, recorded.probes_second_nic),
                recorded.queues_1ms)


@contextmanager
def _record(rack: Rack, store: Path) -> Iterator[None]:
    from ..netlab import record_live

    namespace, interface = rack.capture_interface
    words = ["record", interface, *record_options(store)]
    print(f"A rack in a box: {rack.plan.senders} databases, a switch, a cache server and an API host, each in a\n"
          "network namespace of this machine. Again and again, all databases answer the cache server with\n"
          f"{format_bytes(rack.bytes_per_sender)} at once, through a switch port of {format_rate(rack.plan.link_bps)} "
          f"with {format_bytes(rack.plan.limit_bytes)} of buffer: real packets, a real queue.\n"
          "On the cache server runs:")
    show(["ip", "netns", "exec", namespace, "mburst", *words])
    with record_live(rack, store, words):
        yield


def simulated(folder: Path, seed: int) -> Case:
    """Simulate the case and record its capture file into FOLDER/store."""
    from ..simulate import Scenario, simulate

    scenario = Scenario(seed=seed, senders=SENDERS)
    case = simulate(scenario)
    paths = case.write(folder)
    print(f"Simulated with seed {seed}: {scenario.rounds} rounds in {format_duration(scenario.length_ns())}; in each, "
          f"{scenario.senders} databases answer\n"
          f"one cache server with {format_bytes(scenario.bytes_per_sender)} at once, through a switch port of "
          f"{format_rate(scenario.link_bps)} with {format_bytes(scenario.buffer_bytes)} of buffer.\n"
          f"Probes through that port: {_round_trips(paths['probes'])}. Why?\n"
          f"{paths['cache']} has the {len(case.frames):,} frames that the cache server received and sent.")
    call(["record", str(paths["cache"]), *record_options(folder / "store")])
    rounds = tuple((int(row["t_first_ns"]), int(row["t_last_ns"])) for row in case.rounds)
    return Case(scenario.senders, rounds, (paths["probes"],), paths["queues-1ms"])


def _round_trips(path: Path) -> str:
    """ "round trip p50 17.3 µs, p99 27.9 ms, 0 of 9,860 lost" of a CSV file of probes."""
    import numpy as np

    with path.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    answered = [int(row["rx_ns"]) - int(row["tx_ns"]) for row in rows if row["lost"] == "0"]
    median, tail = np.percentile(answered, [50, 99])
    return (f"round trip p50 {format_duration(median)}, p99 {format_duration(tail)}, "
            f"{len(rows) - len(answered):,} of {len(rows):,} lost")
