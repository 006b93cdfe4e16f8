"""Tests of the rack run as root on Linux, and say so where they cannot."""

from __future__ import annotations

import pytest

from mburst.netlab import Rack, RackUnavailable, Recording, record_rack

SENDERS = 40


@pytest.fixture(scope="session")
def can_build() -> None:
    """Skips, with the reason, where this machine can build no rack."""
    try:
        with Rack(8):
            pass
    except RackUnavailable as reason:
        pytest.skip(f"no rack in a box: {reason} ({reason.hint})")


@pytest.fixture(scope="session")
def recorded_rack(can_build: None, tmp_path_factory: pytest.TempPathFactory) -> Recording:
    """The whole experiment, six seconds of it, that several tests look at."""
    return record_rack(tmp_path_factory.mktemp("rack"), 6, SENDERS, "1gbit")
