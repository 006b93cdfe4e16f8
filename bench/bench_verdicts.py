"""How often is the verdict right, and how often is it `bursts` where it must not be?

Simulated cases with known truth (tests/latency_cases.py, tests/latency_attacks.py), each in a setting that its seed
draws: 1 to 100 Gb/s, bins of 20 µs to 1 ms, 300 to 2,000 probes a second, all stamps or few, clocks apart, random loss.
Prints truth against verdict.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

import latency_attacks
import latency_cases

from mburst.analysis.cause import gather
from mburst.analysis.verdict import decide

KINDS = latency_attacks.KINDS
CAUSES = ("bursts", "host", "elsewhere", "none", "undetermined")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=20, help="of each kind (default: %(default)s)")
    parser.add_argument("--first", type=int, default=0, help="the first seed (default: %(default)s)")
    parser.add_argument("--kinds", nargs="*", help="only these (default: all)")
    parser.add_argument("--explain", action="store_true", help="say of every wrong verdict why")
    arguments = parser.parse_args()
    print("| case | " + " | ".join(CAUSES) + " | right |\n|" + " --- |" * (len(CAUSES) + 2))
    negatives = false = missed = positives = 0
    for kind in arguments.kinds or [*KINDS["bursts"], *KINDS["negative"]]:
        seen: Counter[str] = Counter()
        right = 0
        for seed in range(arguments.first, arguments.first + arguments.seeds):
            case = latency_cases.drawn(kind, seed)
            evidence = gather(case.scene, np.random.default_rng(seed))
            verdict = decide(evidence)
            seen[verdict.cause] += 1
            right += case.accepts(verdict.cause)
            negatives += kind in KINDS["negative"]
            bursts = kind in KINDS["bursts"] and case.truth == "bursts"
            positives += bursts
            missed += bursts and verdict.cause == "undetermined" and not case.accepts(verdict.cause)
            false += kind in KINDS["negative"] and verdict.cause == "bursts"
            if arguments.explain and not case.accepts(verdict.cause):
                print(
                    f"{kind} {seed}: {case.truth} but {verdict.cause}: {verdict.reasons} p={evidence.p_value} "
                    f"{ {k: round(v.value, 2) for k, v in evidence.shares.items()} } {case.setting}",
                    file=sys.stderr,
                )
        print(
            f"| {kind} | "
            + " | ".join(str(seen[cause] or "") for cause in CAUSES)
            + f" | {right} of {arguments.seeds} |",
            flush=True,
        )
    print(f"\nFalse `bursts`: {false} of {negatives} negative cases ({false / max(negatives, 1):.1%}).")
    print(f"Avoidable `undetermined`: {missed} of {positives} cases of bursts ({missed / max(positives, 1):.1%}).")


if __name__ == "__main__":
    main()
