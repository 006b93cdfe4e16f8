"""The table of the faults that were tried."""

from __future__ import annotations

import pytest

pytest.register_assert_rewrite("faultlib")

from outcomes import pytest_terminal_summary  # noqa: E402, F401
