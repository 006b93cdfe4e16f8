"""Increases of counters: plain, over a wrap, or after a reset (RFC 2578 section 7.1.6: a Counter32 or Counter64 returns
to zero after its largest value, and does not show why it is smaller than before)."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum

WIDTHS = (1 << 32, 1 << 64)
NEAR = 0.25  # of the width: without a limit, a wrap begins this close to the end and ends this close to 0


class Step(Enum):
    """What happened to a counter between two values."""

    PLAIN = "plain"
    WRAP = "wrap"
    RESET = "reset"


def increase(
    before: int, now: int, limit: int | None, known_reset: bool, widths: Sequence[int] = WIDTHS
) -> tuple[int, Step]:
    """Returns (increase, what happened) from BEFORE to NOW.

    LIMIT is the most that can have been counted in that time; None if it is not known. KNOWN_RESET means that the
    device reports that it started, or that the counter was cleared, since BEFORE. After a reset the increase is what
    was counted since, a lower bound. A decrease is a wrap only if the increase fits LIMIT or, without one, if the
    counter was in the last quarter of its width and is now in the first. WIDTHS are the widths that the counter may
    have, ascending; the first one above BEFORE counts."""
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
