"""One experiment on the rack for all tests that look at what it recorded."""

from __future__ import annotations

import pytest

from mburst.netlab import Recording, record_rack

SENDERS = 40


@pytest.fixture(scope="session")
def recorded_rack(can_build: None, tmp_path_factory: pytest.TempPathFactory) -> Recording:
    """The whole experiment, six seconds of it."""
    return record_rack(tmp_path_factory.mktemp("rack"), 6, SENDERS, "1gbit")
