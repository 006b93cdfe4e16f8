"""How close are the predictions of `mburst what-if` to the truth of a packet-level FIFO?

Simulated cases (tests/lib/packet_port.py), each in a setting that its seed determines. For every change, prints in how
many cases the predicted p99 is within a quarter of the true one, the median of predicted over true, how often the truth
is in the stated range, and how often the prediction calls itself unsure.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from pathlib import Path

import numpy as np
import seeds

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests" / "lib"))

import packet_port

from mburst.analysis.whatif.replay import WhatIfChange, calibrate, usual_changes, what_if


def main() -> None:
    arguments = seeds.arguments(__doc__, 10)
    found = defaultdict(list)
    for kind in arguments.kinds or packet_port.KINDS:
        for seed in seeds.of(arguments):
            case = packet_port.drawn(kind, seed)
            evidence = packet_port.evidence_of(case)
            replay = calibrate(case.scene, evidence, case.rows)
            if replay is None or not evidence.tail.present:
                continue
            drain = case.made.setting.drain_ns
            more = [
                WhatIfChange("as is"),
                WhatIfChange("half a burst's stagger", stagger_ns=drain / 2),
                WhatIfChange("one", fan_in=1),
            ]
            for outcome in what_if(replay, [*more, *usual_changes(replay)]):
                truth, predicted = case.p99(outcome.change), outcome.quantiles_ns[1] or 0.0
                low, high = outcome.p99_range or (0.0, np.inf)
                near = abs(predicted - truth) <= 0.25 * truth
                row = (near, predicted / truth, 0.9 * low <= truth <= 1.1 * high, bool(outcome.unsure))
                name = "fan-in" if outcome.change.fan_in else outcome.change.name
                found[name, kind].append(row)
                found[name, "all"].append(row)
                if arguments.explain and not near:
                    print(f"{kind} {seed} {outcome.change}: {truth / 1e3:.0f} µs, said {predicted / 1e3:.0f} "
                          f"({low / 1e3:.0f} to {high / 1e3:.0f}) {outcome.unsure}; error {replay.relative_error:.3f} "
                          f"{case.made}", file=sys.stderr)  # fmt: skip
    kinds = list(dict.fromkeys(kind for _, kind in found))
    kinds.remove("all")
    print("| change | n | unsure | within 25 %, of the others | median ratio | in range | " + " | ".join(kinds))
    for name in dict.fromkeys(name for name, _ in found):
        near, ratio, inside, unsure = (np.array(column) for column in zip(*found[name, "all"], strict=True))
        parts = [[row[0] for row in found[name, kind] if not row[3]] for kind in kinds]
        right, middle = near[~unsure].sum(), np.median(ratio[~unsure]) if not unsure.all() else np.nan
        print(f"| {name} | {len(near)} | {unsure.sum()} | {right} | {middle:.2f} | {inside.mean():.1%} | "
              + " | ".join(f"{sum(part)} of {len(part)}" for part in parts))  # fmt: skip


if __name__ == "__main__":
    main()
