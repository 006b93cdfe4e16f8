"""Tests of the rack run as root on Linux, and say so where they cannot."""

from __future__ import annotations

import pytest

from mburst.netlab import Rack, RackUnavailable


@pytest.fixture(scope="session")
def can_build() -> None:
    """Skips, with the reason, where this machine can build no rack."""
    try:
        with Rack(8):
            pass
    except RackUnavailable as reason:
        pytest.skip(f"no rack in a box: {reason} ({reason.hint})")
