"""One experiment on the rack for all tests that read its recording."""

from __future__ import annotations

import pytest
from calm import Attempts

from mburst.lab.rack import RecordedExperiment, record_rack

SENDERS = 40


@pytest.fixture(scope="session")
def recorded_rack(can_build: None, tmp_path_factory: pytest.TempPathFactory) -> Attempts[RecordedExperiment]:
    """The whole experiment, six seconds of it with enough probes for a p99: at 1 Gb/s, otherwise at 100 Mb/s."""
    return Attempts(
        *(
            lambda link=link: record_rack(tmp_path_factory.mktemp("rack"), 6, SENDERS, link, rate=1000)
            for link in ("1gbit", "100mbit")
        )
    )
