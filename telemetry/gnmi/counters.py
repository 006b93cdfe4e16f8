"""Increases of counters: plain, over a wrap, or after a reset (RFC 2578 section 7.1.6: a Counter32 or Counter64 goes
back to zero at its largest value, and says nothing about why it is smaller than before)."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum

WIDTHS = (1 << 32, 1 << 64)
NEAR = 0.25  # of the width: how close to its end a counter was, and to its beginning it is, for a wrap without a limit


class Step(Enum):
    """What became of a counter between two values."""

    PLAIN = "plain"
    WRAP = "wrap"
    RESET = "reset"


def increase(
    before: int, now: int, limit: int | None, known_reset: bool, widths: Sequence[int] = WIDTHS
) -> tuple[int, Step]:
    """(increase, what happened) from BEFORE to NOW.

    LIMIT: the most that can have been counted meanwhile; None where nobody knows. KNOWN_RESET: the device says that it
    started, or that the counter was cleared, since BEFORE. After a reset the increase is what was counted since, a
    lower bound. A value that went back is a wrap only if the increase would fit LIMIT; without one, only if the counter
    was in the last quarter of its width and is in the first. WIDTHS: those that the counter may have, rising; the first
    that BEFORE is below counts."""
    if known_reset:
        return now, Step.RESET
    if now >= before:
        return now - before, Step.PLAIN
    width = next((width for width in widths if before < width), None)
    if width is None:
        return now, Step.RESET
    wrapped = now + width - before
    fits = wrapped <= limit if limit is not None else before >= width * (1 - NEAR) and now <= width * NEAR
    return (wrapped, Step.WRAP) if fits else (now, Step.RESET)
