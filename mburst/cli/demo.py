"""mburst demo: the cache server's case from simulation to report, through the same commands that a user would type."""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import MburstError
from ..units import format_bytes, format_duration, format_rate

if TYPE_CHECKING:
    from ..simulate import Case

MANIFEST = "made-by-mburst-demo.txt"
NAMES = ("cache.pcap", "probes.csv", "queues-1ms.csv", "queues-1s.csv", "truth.csv", "store", "report", MANIFEST)
DEFINITION = ["--bin", "1ms", "--threshold", "0.8", "--join", "5ms", "--min-duration", "3ms"]
TOLERANCE_NS = 3_000_000  # bins of 1 ms, and a first and a last one that are too empty to be hot


def add_parser(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = verbs.add_parser(
        "demo",
        help="simulate a cache server's incast and find it",
        description="Simulate 40 databases that answer one cache server at once, record what it received, find the "
        "bursts, compare them with the truth, and write a report. Needs scapy.",
    )
    parser.add_argument("-o", "--output", metavar="DIR", default="demo", help="folder for all of it (default: demo)")
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="of the simulation (default: 1)")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    from ..simulate import Scenario, simulate

    folder = Path(arguments.output)
    case = simulate(Scenario(seed=arguments.seed))
    with own(folder):
        case.write(folder)
        print("\n".join(introduction(case, folder)))
        store, report = str(folder / "store"), str(folder / "report")
        for words in (
            ["record", str(folder / "cache.pcap"), "-o", store, "--link", "1G", "--host", "cache", "--rack", "r1"],
            ["import", "probes", str(folder / "probes.csv"), "-o", store, "--protocol", "udp"],
            ["import", "queues", str(folder / "queues-1ms.csv"), "-o", store],
        ):
            if code := call(words):
                return code
        code, listed = heard(["bursts", store, *DEFINITION, "--json"])
        if code:
            return code
        print("\n".join(verdict(case, json.loads(listed))))
        if code := call(["report", store, "--rack", "r1", *DEFINITION, "-o", report]):
            return code
        print("\n".join(farewell(folder)))
    return 0


@contextmanager
def own(folder: Path) -> Iterator[None]:
    """A folder with none of NAMES in it. What an earlier demo made is removed; files of others never are, and where
    they are in the way MburstError is raised. In the end a manifest says which files are the demo's."""
    manifest = folder / MANIFEST
    made = set(manifest.read_text("utf-8", "replace").splitlines()) | {MANIFEST} if manifest.is_file() else set()
    foreign = sorted(files_of(folder) - made)
    if foreign:
        raise MburstError(
            f"{folder / foreign[0]} is in the way, and no earlier demo made it", "name another folder: -o"
        )
    for name in sorted(files_of(folder)):
        (folder / name).unlink()
    for name in NAMES:
        for parent, _, _ in os.walk(folder / name, topdown=False):
            os.rmdir(parent)
    folder.mkdir(parents=True, exist_ok=True)
    try:
        yield
    finally:
        manifest.write_text("\n".join(sorted(files_of(folder))) + "\n", encoding="utf-8")


def files_of(folder: Path) -> set[str]:
    """The files in a folder that have one of NAMES or are under it, as paths from the folder."""
    found = {name for name in NAMES if os.path.lexists(folder / name) and not (folder / name).is_dir()}
    for name in NAMES:
        for parent, _, files in os.walk(folder / name):
            found.update(os.path.relpath(os.path.join(parent, file), folder) for file in files)
    return found


def show(words: list[str]) -> None:
    """Show a command as a user would type it."""
    print(f"\n$ {shlex.join(['mburst', *words])}", flush=True)


def call(words: list[str]) -> int:
    """Run a command of mburst; its exit code."""
    from ..__main__ import main

    show(words)
    return main(words)


def heard(words: list[str]) -> tuple[int, str]:
    """Run a command of mburst; its exit code and what it printed, which is not shown."""
    from ..__main__ import main

    show(words)
    with contextlib.redirect_stdout(io.StringIO()) as output:
        code = main(words)
    return code, output.getvalue()


def introduction(case: Case, folder: Path) -> list[str]:
    """What was simulated, and what its applications felt."""
    import numpy as np

    scenario = case.scenario
    answered = case.probes[case.probes["lost"] == 0]
    median, tail = np.percentile(answered["rx_ns"] - answered["tx_ns"], [50, 99])
    return [
        f"Simulated with seed {scenario.seed}: {scenario.rounds} rounds in {format_duration(scenario.length_ns())}; in "
        f"each, {scenario.senders} databases answer",
        f"one cache server with {format_bytes(scenario.bytes_per_sender)} at once, through a switch port of "
        f"{format_rate(scenario.link_bps)} with {format_bytes(scenario.buffer_bytes)} of buffer.",
        f"Probes through that port: round trip p50 {format_duration(median)}, p99 {format_duration(tail)}, "
        f"{len(case.probes) - len(answered):,} of {len(case.probes):,} lost. Why?",
        f"{folder / 'cache.pcap'} has the {len(case.frames):,} frames that the cache server received and sent.",
    ]


def verdict(case: Case, bursts: list[dict[str, Any]]) -> list[str]:
    """What was found, against what was simulated."""
    incoming = [burst for burst in bursts if burst["direction"] != "out"]
    pairs = [(row, burst) for row in case.rounds for burst in incoming if is_of_round(burst, row)]
    rounds = {int(row["round"]) for row, _ in pairs}
    lines = [f"Found {len(rounds)} of {len(case.rounds)} rounds, and {len(incoming) - len(pairs)} bursts besides."]
    if pairs:
        starts = max(abs(burst["start_ns"] - int(row["t_first_ns"])) for row, burst in pairs)
        ends = max(abs(burst["end_ns"] - int(row["t_last_ns"])) for row, burst in pairs)
        lines.append(
            f"They start within {format_duration(starts)} and end within {format_duration(ends)} of the truth."
        )
        fan_in = sorted({burst["fan_in"] for _, burst in pairs})
        told = str(fan_in[0]) if len(fan_in) == 1 else f"{fan_in[0]} to {fan_in[-1]}"
        lines.append(f"Fan-in: {told} senders at once, of {case.scenario.senders} simulated.")
    return lines


def is_of_round(burst: dict[str, Any], row: Any) -> bool:
    """Whether a burst begins and ends where a round of the truth does."""
    edges = ((burst["start_ns"], row["t_first_ns"]), (burst["end_ns"], row["t_last_ns"]))
    return all(abs(found - int(true)) <= TOLERANCE_NS for found, true in edges)


def farewell(folder: Path) -> list[str]:
    """Where the report is, and what to do next."""
    pages = sorted((folder / "report").rglob("*.html"))
    store = shlex.quote(str(folder / "store"))
    return [
        "",
        f"The report: {', '.join(str(page) for page in pages)} (open it in a browser)",
        "Go on with:",
        f"  mburst bursts {store} {' '.join(DEFINITION)}",
        f"  mburst sql {store}",
        f"  less {shlex.quote(str(folder / 'truth.csv'))}",
    ]
