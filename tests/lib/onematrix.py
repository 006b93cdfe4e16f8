"""Which answer has which fact: here is the reason for each one that is in no cell of test_one_answer.py.

The facts are those that several answers give; a cell belongs to the answer that its function is named after
(`report_count`, `reportjson_recorded`: the host's report).
"""

from __future__ import annotations

from onecells import CELLS

ANSWERS = ("bursts", "report", "rack", "investigate", "compare", "whatif", "live", "metrics", "sql", "api")
FACTS = {  # and the facts of test_one_answer.TRUTH that it consists of, in whole or in part
    "when recorded": ("recorded", "recorded_ns", "recorded_once"),
    "number of bursts": ("bursts", "bursts_of_all"),
    "each burst": ("each_burst",),
    "time in bursts": ("burst_ns",),
    "mean utilization": ("utilization",),
    "wire bytes": ("wire_bytes",),
    "dropped by the recorder": ("dropped",),
    "gap behind a recording": ("gap",),
    "bins with marks": ("marks",),
    "latency and lost": ("latency", "deciding"),
    "queue depth, drops": ("queues",),
    "windows left out": ("impossible",),
    "marked by the switch": ("marked",),
    "pauses and CNPs": ("flow_control",),
    "contention": ("contention", "contention_of_all"),
    "newest data": ("newest",),
}
NOT_SAID = "does not say it"
OF_INVESTIGATION = "predicts from the investigation, and says its latency alone"
OF_PARTS = "compares latency and bursts"
BY_SPAN_OF = "counts --since back as `bursts` does: mburst.api.options.span_of"
EMPTY = {
    "when recorded": {"investigate": NOT_SAID, "whatif": OF_INVESTIGATION, "metrics": "counters, which have no past"},
    "number of bursts": {"whatif": OF_INVESTIGATION},
    "each burst": {
        "investigate": "counts them",
        "compare": "counts them",
        "whatif": OF_INVESTIGATION,
        "metrics": "counts them",
    },
    "time in bursts": {"investigate": NOT_SAID, "whatif": OF_INVESTIGATION},
    "mean utilization": {
        "bursts": "has that of each burst",
        "rack": "has the busiest second and bin",
        "investigate": NOT_SAID,
        "compare": OF_PARTS,
        "whatif": OF_INVESTIGATION,
        "metrics": "rate() of the wire bytes",
    },
    "wire bytes": {
        "bursts": NOT_SAID,
        "investigate": NOT_SAID,
        "compare": OF_PARTS,
        "whatif": OF_INVESTIGATION,
        "live": "draws utilization",
    },
    "dropped by the recorder": {
        "investigate": "has that of the deciding port",
        "compare": OF_PARTS,
        "whatif": OF_INVESTIGATION,
        "live": "draws the bins that lost packets",
    },
    "gap behind a recording": {
        "rack": "counts the recordings that were cut off",
        "investigate": NOT_SAID,
        "compare": OF_PARTS,
        "whatif": OF_INVESTIGATION,
        "live": "is of what goes on",
        "metrics": "is of what goes on",
    },
    "bins with marks": {
        "bursts": NOT_SAID,
        "report": NOT_SAID,
        "rack": NOT_SAID,
        "investigate": "has their share beside late probes; the cell of `api` has the bins",
        "compare": OF_PARTS,
        "whatif": OF_INVESTIGATION,
        "live": NOT_SAID,
        "metrics": NOT_SAID,
    },
    "latency and lost": {"bursts": "is of bursts alone"},
    "queue depth, drops": {"bursts": "is of bursts alone", "compare": OF_PARTS, "whatif": OF_INVESTIGATION},
    "windows left out": {
        "bursts": "is of bursts alone",
        "investigate": NOT_SAID,
        "compare": OF_PARTS,
        "whatif": OF_INVESTIGATION,
    },
    "marked by the switch": {
        "bursts": "is of bursts alone",
        "report": NOT_SAID,
        "compare": OF_PARTS,
        "whatif": OF_INVESTIGATION,
        "live": NOT_SAID,
        "metrics": NOT_SAID,
    },
    "pauses and CNPs": {
        "bursts": NOT_SAID,
        "investigate": "has those of the other direction of a port, where probes are late",
        "compare": OF_PARTS,
        "whatif": OF_INVESTIGATION,
        "live": NOT_SAID,
        "metrics": NOT_SAID,
        "api": "asks the view in SQL",
    },
    "contention": {
        "bursts": "lists each burst alone",
        "report": "is of hosts, each for itself",
        "compare": OF_PARTS,
        "whatif": OF_INVESTIGATION,
        "live": NOT_SAID,
        "metrics": "is of hosts, each for itself",
    },
    "newest data": {
        "report": BY_SPAN_OF,
        "rack": BY_SPAN_OF,
        "investigate": BY_SPAN_OF,
        "whatif": BY_SPAN_OF,
        "metrics": "has that of each interface",
    },
}


def filled() -> dict[str, set[str]]:
    """Returns the answers that have a cell, by fact."""
    found: dict[str, set[str]] = {fact: set() for fact in FACTS}
    for cell in CELLS:
        name, answer = cell.id.split("-", 1)
        for fact, parts in FACTS.items():
            if name in parts:
                found[fact] |= {one for one in ANSWERS if answer.startswith(one)}
    return found


def printed_matrix() -> str:
    """Returns the matrix as a table, with the reasons below it."""
    cells = filled()
    lines = [" ".join([f"{'':24}", *(f"{answer[:7]:7}" for answer in ANSWERS)])]
    for fact in FACTS:
        lines.append(" ".join([f"{fact:24}", *(f"{'x' if answer in cells[fact] else '-':7}" for answer in ANSWERS)]))
    lines += [f"{fact}: {answer} {reason}" for fact, reasons in EMPTY.items() for answer, reason in reasons.items()]
    return "\n".join(lines)
