"""Comparison of a demo's results with the truth."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...units import format_count, format_duration, format_share
from .cases import DemoCase

TOLERANCE_NS = 3_000_000  # bins of 1 ms, and a first and a last bin that are too empty to be hot
STOLEN = 0.005  # share of the processors' time below which nobody would notice

Edges = tuple[int, int]  # first and last frame of a round, Unix ns
Burst = dict[str, Any]


def verdict(case: DemoCase, bursts: list[Burst], unsampled: Sequence[Edges] = ()) -> list[str]:
    """Returns lines that say how many rounds were detected, how exactly, with how many senders, and how the machine
    that played all hosts disturbed them. UNSAMPLED has the times in which the switch took no sample of its port."""
    incoming = [burst for burst in bursts if burst["direction"] != "out" and burst["host"] != case.switch]
    pairs, others = matched(case, incoming)
    rounds = {edges for edges, _ in pairs}
    lines = [f"Detected {found_words(case, rounds, others)}."]
    lines += disturbed(case, rounds, others)
    if pairs:
        starts = max(abs(burst["start_ns"] - first_ns) for (first_ns, _), burst in pairs)
        ends = max(abs(burst["end_ns"] - last_ns) for (_, last_ns), burst in pairs)
        lines.append(
            f"They start within {format_duration(starts)} and end within {format_duration(ends)} of the truth."
        )
        fan_in = sorted({burst["fan_in"] for _, burst in pairs})
        senders = str(fan_in[0]) if len(fan_in) == 1 else f"{fan_in[0]} to {fan_in[-1]}"
        lines.append(f"Fan-in: {senders} senders at once, of {case.senders}.")
    if case.switch:
        pairs, others = matched(case, [burst for burst in bursts if burst["host"] == case.switch])
        rounds = {edges for edges, _ in pairs}
        lines.append(f"Detected in the switch's own samples of its port: {found_words(case, rounds, others)}.")
        lines += undersampled(case, rounds, unsampled)
    return lines


def matched(case: DemoCase, bursts: list[Burst]) -> tuple[list[tuple[Edges, Burst]], list[Burst]]:
    """Returns the rounds with the burst that matches each, and the other bursts."""
    pairs = [(edges, burst) for edges in case.rounds for burst in bursts if is_of_round(burst, edges)]
    return pairs, [burst for burst in bursts if not any(burst is found for _, found in pairs)]


def found_words(case: DemoCase, rounds: set[Edges], others: list[Burst]) -> str:
    return f"{len(rounds)} of {len(case.rounds)} incasts, {format_count(len(others), 'other burst')}"


def disturbed(case: DemoCase, found: set[Edges], others: list[Burst]) -> list[str]:
    """Returns lines that say how this machine disturbed the rounds, from the notes of the cache server and of the
    kernel. A round that lasted longer than its bytes need at line rate had pauses, and is several bursts."""
    lines = []
    paused = [(first, last) for first, last in case.rounds if last - first > case.round_ns + TOLERANCE_NS]
    if case.round_ns and paused:
        longest = max(last - first for first, last in paused)
        missed = sum(edges not in found for edges in paused)
        parts = sum(any(burst["start_ns"] < last and burst["end_ns"] > first for first, last in paused)
                    for burst in others)  # fmt: skip
        lines.append(
            f"This machine paused while it sent {format_count(len(paused), 'round')}, which lasted up to "
            f"{format_duration(longest)} instead of {format_duration(case.round_ns)}: "
            f"these are {missed} of the {len(case.rounds) - len(found)} not found, "
            f"and {parts} of the {len(others)} others."
        )
    if case.stolen >= STOLEN:
        lines.append(f"A hypervisor took {format_share(case.stolen)} of its processors' time.")
    return lines


def undersampled(case: DemoCase, found: set[Edges], unsampled: Sequence[Edges]) -> list[str]:
    """Returns a line that says how many of the rounds that were not detected in the switch's samples were not sampled
    throughout."""
    missed = [edges for edges in case.rounds if edges not in found]
    partly = sum(any(begin < last and end > first for begin, end in unsampled) for first, last in missed)
    return [f"Its samples miss a part of {partly} of the {len(missed)} not found."] if partly else []


def is_of_round(burst: Burst, edges: Edges) -> bool:
    """Whether a burst begins and ends at the edges of a round of the truth."""
    found = (burst["start_ns"], burst["end_ns"])
    return all(abs(seen - true) <= TOLERANCE_NS for seen, true in zip(found, edges, strict=True))
