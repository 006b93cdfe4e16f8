"""The table of faults that were tried, at the end of their tests: a plugin of pytest (-p outcomes)."""

from __future__ import annotations

from typing import Any

OUTCOMES: list[tuple[str, str, str]] = []  # (fault, tries, what was left)


def outcome(fault: str, tries: object, left: str) -> None:
    """A line of the table."""
    OUTCOMES.append((fault, str(tries), left))


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Print the table."""
    if not OUTCOMES:
        return
    terminalreporter.section("faults")
    widths = [max(len(line[column]) for line in OUTCOMES) for column in range(2)]
    for fault, tries, left in OUTCOMES:
        terminalreporter.line(f"{fault:{widths[0]}}  {tries:>{widths[1]}}  {left}")
    OUTCOMES.clear()
