"""The table of faults that were tried, at the end of their tests."""

from __future__ import annotations

from typing import Any

import pytest

pytest.register_assert_rewrite("faultlib")

from faultlib import OUTCOMES  # noqa: E402


def pytest_terminal_summary(terminalreporter: Any) -> None:
    if not OUTCOMES:
        return
    terminalreporter.section("faults")
    widths = [max(len(line[column]) for line in OUTCOMES) for column in range(2)]
    for fault, tries, left in OUTCOMES:
        terminalreporter.line(f"{fault:{widths[0]}}  {tries:>{widths[1]}}  {left}")
