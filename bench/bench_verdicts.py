"""How often is the verdict right, and how often is it `bursts` where it must not be?

Simulated cases with known truth (tests/lib/latency_cases.py, latency_attacks.py, latency_variants.py,
latency_networks.py, latency_counts.py, latency_pauses.py), each in a setting that its seed determines: 1 to 100 Gb/s,
bins of 20 µs to 1 ms, 300 to 2,000 probes per second, all stamps or few, clocks apart, random loss. Prints truth
against verdict, and how reliable the share is that the verdict states for bursts.
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np
import seeds

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests" / "lib"))

import latency_cases
import latency_pauses

from mburst.analysis.cause.gather import gather
from mburst.analysis.cause.verdict import decide

KINDS = latency_pauses.KINDS
CAUSES = ("bursts", "host", "elsewhere", "none", "undetermined")
STATED = (0.0, 0.25, 0.5, 0.75, 0.9, 1.0)  # edges of the lower end of the share that is stated for bursts


class Answered(NamedTuple):
    """A case and its answer. share: the lower end of the share of bursts, NaN if nothing was late."""

    kind: str
    truth: str
    cause: str
    right: bool
    share: float


def answered(kind: str, seed: int, explain: bool) -> Answered:
    case = latency_cases.drawn(kind, seed)
    evidence = gather(case.scene, np.random.default_rng(seed))
    verdict = decide(evidence)
    right = case.accepts(verdict.cause)
    if explain and not right:
        print(
            f"{kind} {seed}: {case.truth} but {verdict.cause}: {verdict.reasons} p={evidence.p_value} "
            f"{ {k: round(v.value, 2) for k, v in evidence.shares.items()} } {case.setting}",
            file=sys.stderr,
        )
    return Answered(kind, case.truth, verdict.cause, right, evidence.shares["bursts"].low)


def matrix_row(kind: str, cases: list[Answered]) -> str:
    answers = Counter(case.cause for case in cases)
    counts = " | ".join(str(answers[cause] or "") for cause in CAUSES)
    return f"| {kind} | {counts} | {sum(case.right for case in cases)} of {len(cases)} |"


def totals(cases: list[Answered]) -> list[str]:
    """Returns lines on wrong accusations, and on answers that the recording could have given."""
    negative = [case for case in cases if case.kind in KINDS["negative"]]
    positive = [case for case in cases if case.kind in KINDS["bursts"] and case.truth == "bursts"]
    false = sum(case.cause == "bursts" for case in negative)
    missed = sum(case.cause == "undetermined" and not case.right for case in positive)
    wrong = sum(not case.right for case in cases)
    n, of = len(negative), len(positive)
    return [
        f"False `bursts`: {false} of {n} negative cases ({false / max(n, 1):.1%}).",
        f"Avoidable `undetermined`: {missed} of {of} cases of bursts ({missed / max(of, 1):.1%}).",
        f"Not right: {wrong} of {len(cases)}.",
    ]


def calibration(cases: list[Answered]) -> list[str]:
    """Returns how often bursts are the truth, by the share that is surely theirs, before and after the doubts of a
    verdict."""
    head = ("surely of the excess", "cases", "bursts are the cause", "verdict `bursts`", "of these true")
    lines = [f"| {' | '.join(head)} |", "|" + " --- |" * len(head)]
    for low, high in pairwise(STATED):
        here = [case for case in cases if low <= case.share < high or case.share == high == 1]
        answers = [case for case in here if case.cause == "bursts"]
        true, kept = (sum(case.truth == "bursts" for case in some) for some in (here, answers))
        lines.append(f"| {low:.0%} to {high:.0%} | {len(here)} | {true} | {len(answers)} | {kept} |")
    return lines


def main() -> None:
    arguments = seeds.arguments(__doc__, 20)
    began, cases = time.process_time(), []
    print("| case | " + " | ".join(CAUSES) + " | right |\n|" + " --- |" * (len(CAUSES) + 2))
    for kind in arguments.kinds or [*KINDS["bursts"], *KINDS["negative"]]:
        cases += (these := [answered(kind, seed, arguments.explain) for seed in seeds.of(arguments)])
        print(matrix_row(kind, these), flush=True)
    took = (time.process_time() - began) / max(len(cases), 1)
    print("", *totals(cases), f"{took:.2f} CPU seconds a case.", "", *calibration(cases), sep="\n")


if __name__ == "__main__":
    main()
