"""Durations in the form of Go: "1s", "1m30s", "500ms", "1.5h"."""

from __future__ import annotations

import re
from fractions import Fraction

from ...errors import UsageError
from ...units import NS_PER_HOUR, NS_PER_MINUTE, NS_PER_S, SHOWN, checked_duration

_UNITS = {"ns": 1, "us": 1000, "µs": 1000, "μs": 1000, "ms": 10**6, "s": NS_PER_S, "m": NS_PER_MINUTE, "h": NS_PER_HOUR}
_PART = re.compile(r"([0-9]{1,30}(?:\.[0-9]{0,30})?|\.[0-9]{1,30})(ns|us|µs|μs|ms|s|m|h)")


def parse_go_duration(text: str) -> int:
    """Nanoseconds of a duration in the syntax of Go's time.ParseDuration, without a sign. Raises UsageError."""
    total, end = Fraction(0), 0
    for match in _PART.finditer(text):
        if match.start() != end:
            break
        total += Fraction(match[1].rstrip(".") if match[1] != "." else "0") * _UNITS[match[2]]
        end = match.end()
    if not text or end != len(text):
        raise UsageError(f"invalid duration {text[:SHOWN]!r}", "examples: 10ms, 1s, 1m30s")
    return checked_duration(int(total), text)
