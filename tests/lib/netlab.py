"""The rack in a box, for tests. It is built by mburst/lab/rack/, since `mburst demo` needs it where no tests are."""

from __future__ import annotations

import pytest

from mburst.lab.rack import Rack, RackUnavailable


@pytest.fixture(scope="session")
def can_build() -> None:
    """Skips, with the reason, where this machine can build no rack in a box."""
    try:
        with Rack(8):
            pass
    except RackUnavailable as reason:
        pytest.skip(f"no rack in a box: {reason} ({reason.hint})")
