"""A probed path in words: the same in the terminal and on the page."""

from __future__ import annotations

from ...analysis.answers.paths import LEVELS, ClockState, PathProbes
from ...analysis.read.path_ends import path_name
from ...units import format_duration
from ..common.words import duration

NAMES = {
    "application": "application",
    "round_trip": "round trip",
    "forward": "  forward",
    "back": "  back",
    "host_here": "this host",
    "host_there": "that host",
}
MEANINGS = {
    "application": "from when the probe was due to when its sender had the answer",
    "forward": "one way, to the host that answers",
    "back": "one way, from the host that answers",
    "host_here": "in the host that asks, between application and network, both ways",
    "host_there": "in the host that answers, from its receiving to its sending",
}
ROUND_TRIPS = {  # meanings of the measure that counts as a path's round trip
    "network round trip": "between the two kernels or network interfaces, without the time in the host that answers",
    "round trip": "from the stamp of the probe to that of its answer, with the time in the host that answers",
    "reported round trip": "as what measured it reported it",
}
HEADS = ("min", *(f"p{100 * level:g}" for level in LEVELS), "max")
LEAST_PPM = 0.01  # a smaller drift is not mentioned
KINDS = {"hw": "the network interface", "sw": "the kernel", "app": "the application"}


def meaning(name: str, met: PathProbes) -> str:
    """Returns what a measure of a path means, by its name in MEASURES."""
    return ROUND_TRIPS[met.round_trip] if name == "round_trip" else MEANINGS[name]


def name_of(met: PathProbes) -> str:
    """ "api → cache (udp)", or "api → cache (udp, 8 paths)" """
    return path_name(met.src, met.dst, met.protocol, f"{met.paths} paths" if met.paths > 1 else "")


def stamped_by(met: PathProbes) -> str:
    """Returns who stamped sent and received packets; empty if unknown."""
    return " and ".join(KINDS[kind] for kind in met.stamps.split(", ") if kind in KINDS)


def unknown_note(met: PathProbes) -> str:
    """Returns a sentence that no latency of answered probes was measured; empty otherwise."""
    if met.has_latency or met.sent == met.lost:
        return ""
    return "No latency is known: no clock stamped both a probe and its answer."


def sample_note(met: PathProbes) -> str:
    """Returns a sentence that not all probes were read; empty if they were."""
    return f"The figures use one probe in {met.every:,}." if met.every > 1 else ""


def table(met: PathProbes) -> list[list[str]]:
    """Returns a row for each available measure: its name, n, and the values of HEADS."""
    return [
        [
            NAMES[name],
            f"{measured.n:,}",
            *(duration(value) for value in (measured.least, *measured.levels, measured.largest)),
        ]
        for name, measured in met.measured.items()
        if measured.n
    ]


def clock_note(clocks: ClockState | None) -> str:
    """Returns a sentence on how far one-way delays can be trusted; empty if there are none."""
    if clocks is None:
        return ""
    uncertain = format_duration(clocks.uncertainty_ns)
    if clocks.kept:
        return f"One way: as measured; both ends keep their clocks, to within {uncertain} of each other."
    drift = f" and drifts by {clocks.drift_ppm:.2f} ppm" if abs(clocks.drift_ppm or 0) >= LEAST_PPM else ""
    way = "ahead" if clocks.offset_ns >= 0 else "behind"
    times = "once" if clocks.steps == 1 else f"{clocks.steps:,} times"
    drift += f", and one of the two was set {times} meanwhile" if clocks.steps else ""
    return (
        f"One way: that host's clock is {format_duration(abs(clocks.offset_ns))} {way}{drift}; this was removed, "
        f"assuming that the fastest probes take equally long in both directions: ± {uncertain}."
    )
