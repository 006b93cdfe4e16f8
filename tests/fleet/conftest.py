"""One small fleet (fleetlib.filled) and what is detected of it, made once for all tests that only read it."""

from __future__ import annotations

from pathlib import Path

import pytest
from fleetlib import detected, filled, shipped

from mburst.sql import StoreFolder


@pytest.fixture(scope="session")
def fleet_store(tmp_path_factory: pytest.TempPathFactory) -> StoreFolder:
    """The store that its hosts recorded into."""
    return filled(tmp_path_factory.mktemp("fleet") / "store")


@pytest.fixture(scope="session")
def fleet_target(fleet_store: StoreFolder, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The place that they shipped to."""
    return shipped(fleet_store, tmp_path_factory.mktemp("fleet") / "target")


@pytest.fixture(scope="session")
def fleet_done(fleet_target: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The results of both days, by rack. The names of their folders are ones that could be taken for a partition's and
    for a pattern."""
    folder = tmp_path_factory.mktemp("fleet") / "date=2020-01-01" / "it's [1]"
    folder.parent.mkdir()
    found = detected(fleet_target, folder)
    assert not any(outcome.error for outcome in found.outcomes) and not found.incomplete
    return folder


@pytest.fixture(scope="session")
def fleet_by_host(fleet_target: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The results of both days, by host."""
    folder = tmp_path_factory.mktemp("fleet-by-host") / "results"
    detected(fleet_target, folder, split="host")
    return folder
