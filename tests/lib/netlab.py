"""The rack in a box, for tests. mburst/lab/rack/ builds it, because `mburst demo` needs it where there are no tests."""

from __future__ import annotations

import pytest

from mburst.lab.rack import Rack, RackUnavailable


@pytest.fixture(scope="session")
def can_build() -> None:
    """Skips, with the reason, if this machine cannot build a rack in a box."""
    try:
        with Rack(8):
            pass
    except RackUnavailable as reason:
        pytest.skip(f"no rack in a box: {reason} ({reason.hint})")
