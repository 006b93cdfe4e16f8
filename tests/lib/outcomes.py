"""Prints the table of injected faults at the end of their tests: a plugin of pytest (-p outcomes)."""

from __future__ import annotations

from typing import Any

OUTCOMES: list[tuple[str, str, str]] = []  # (fault, tries, what remained)


def outcome(fault: str, tries: object, left: str) -> None:
    """Adds a line to the table."""
    OUTCOMES.append((fault, str(tries), left))


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Prints the table."""
    if not OUTCOMES:
        return
    terminalreporter.section("faults")
    widths = [max(len(line[column]) for line in OUTCOMES) for column in range(2)]
    for fault, tries, left in OUTCOMES:
        terminalreporter.line(f"{fault:{widths[0]}}  {tries:>{widths[1]}}  {left}")
    OUTCOMES.clear()
