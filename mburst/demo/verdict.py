"""What was found in a demo, against what is known to have happened."""

from __future__ import annotations

from typing import Any

from ..units import format_duration
from .cases import Case

TOLERANCE_NS = 3_000_000  # bins of 1 ms, and a first and a last one that are too empty to be hot


def verdict(case: Case, bursts: list[dict[str, Any]]) -> list[str]:
    """Lines that say how many rounds were found, how exactly, and with how many senders."""
    incoming = [burst for burst in bursts if burst["direction"] != "out"]
    pairs = [(edges, burst) for edges in case.rounds for burst in incoming if is_of_round(burst, edges)]
    rounds = {edges for edges, _ in pairs}
    besides = len(incoming) - len(pairs)
    lines = [f"Found {len(rounds)} of {len(case.rounds)} rounds, and {besides} burst{'s' * (besides != 1)} besides."]
    if pairs:
        starts = max(abs(burst["start_ns"] - first_ns) for (first_ns, _), burst in pairs)
        ends = max(abs(burst["end_ns"] - last_ns) for (_, last_ns), burst in pairs)
        lines.append(
            f"They start within {format_duration(starts)} and end within {format_duration(ends)} of the truth."
        )
        fan_in = sorted({burst["fan_in"] for _, burst in pairs})
        told = str(fan_in[0]) if len(fan_in) == 1 else f"{fan_in[0]} to {fan_in[-1]}"
        lines.append(f"Fan-in: {told} senders at once, of {case.senders}.")
    return lines


def is_of_round(burst: dict[str, Any], edges: tuple[int, int]) -> bool:
    """Whether a burst begins and ends where a round of the truth does."""
    found = (burst["start_ns"], burst["end_ns"])
    return all(abs(seen - true) <= TOLERANCE_NS for seen, true in zip(found, edges, strict=True))
