"""One small fleet (fleetlib.filled) and its detected bursts, made once for all tests that only read them and for all
workers that run these tests."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from fleetlib import detected, filled, shipped, with_ports
from sharing import made_once

from mburst.sql import StoreFolder

RESULTS = "date=2020-01-01/it's [1]"  # a name that could be mistaken for a partition or a pattern


@pytest.fixture(scope="session")
def fleet_store(tmp_path_factory: pytest.TempPathFactory) -> StoreFolder:
    """The store that the hosts of the fleet recorded into."""
    return StoreFolder.open(made_once(tmp_path_factory, "fleet-store", filled))


@pytest.fixture(scope="session")
def fleet_target(fleet_store: StoreFolder, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The target that the hosts shipped to."""
    return made_once(tmp_path_factory, "fleet-target", lambda folder: shipped(fleet_store, folder))


def results_of(target: Path, split: str = "rack") -> Callable[[Path], None]:
    """A function that detects the bursts of both days in TARGET."""

    def make(folder: Path) -> None:
        (folder / RESULTS).parent.mkdir(parents=True)
        found = detected(target, folder / RESULTS, split=split)
        assert not any(outcome.error for outcome in found.outcomes) and not found.incomplete

    return make


@pytest.fixture(scope="session")
def fleet_done(fleet_target: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The results of both days, by rack."""
    return made_once(tmp_path_factory, "fleet", results_of(fleet_target)) / RESULTS


@pytest.fixture(scope="session")
def fleet_by_host(fleet_target: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The results of both days, by host."""
    return made_once(tmp_path_factory, "fleet-by-host", results_of(fleet_target, "host")) / RESULTS


@pytest.fixture(scope="session")
def ports_store(tmp_path_factory: pytest.TempPathFactory) -> StoreFolder:
    """The store of the same fleet with a switch (fleetlib.with_ports)."""
    return StoreFolder.open(made_once(tmp_path_factory, "ports-store", with_ports))


@pytest.fixture(scope="session")
def ports_target(ports_store: StoreFolder, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The target that the hosts and the switch's collector shipped to."""
    return made_once(tmp_path_factory, "ports-target", lambda folder: shipped(ports_store, folder))


@pytest.fixture(scope="session")
def ports_done(ports_target: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The results of both days, by rack."""
    return made_once(tmp_path_factory, "ports", results_of(ports_target)) / RESULTS


@pytest.fixture(scope="session")
def ports_by_host(ports_target: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The results of both days, by host."""
    return made_once(tmp_path_factory, "ports-by-host", results_of(ports_target, "host")) / RESULTS
