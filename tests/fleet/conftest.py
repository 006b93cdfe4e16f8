"""One small fleet (fleetlib.filled) and what is detected of it, made once for all tests that only read it."""

from __future__ import annotations

from pathlib import Path

import pytest
from fleetlib import detected, filled, shipped, with_ports

from mburst.sql import StoreFolder


@pytest.fixture(scope="session")
def fleet_store(tmp_path_factory: pytest.TempPathFactory) -> StoreFolder:
    """The store that its hosts recorded into."""
    return filled(tmp_path_factory.mktemp("fleet") / "store")


@pytest.fixture(scope="session")
def fleet_target(fleet_store: StoreFolder, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The place that they shipped to."""
    return shipped(fleet_store, tmp_path_factory.mktemp("fleet") / "target")


def results(target: Path, folder: Path, split: str = "rack") -> Path:
    """What is detected of both days in TARGET, in FOLDER."""
    found = detected(target, folder, split=split)
    assert not any(outcome.error for outcome in found.outcomes) and not found.incomplete
    return folder


def odd(folder: Path) -> Path:
    """A folder in FOLDER whose name, and that of the one above, could be taken for a partition's and for a pattern."""
    (folder / "date=2020-01-01").mkdir()
    return folder / "date=2020-01-01" / "it's [1]"


@pytest.fixture(scope="session")
def fleet_done(fleet_target: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The results of both days, by rack."""
    return results(fleet_target, odd(tmp_path_factory.mktemp("fleet")))


@pytest.fixture(scope="session")
def fleet_by_host(fleet_target: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The results of both days, by host."""
    return results(fleet_target, tmp_path_factory.mktemp("fleet-by-host") / "results", "host")


@pytest.fixture(scope="session")
def ports_store(tmp_path_factory: pytest.TempPathFactory) -> StoreFolder:
    """The store of the same fleet and of a switch (fleetlib.with_ports)."""
    return with_ports(tmp_path_factory.mktemp("ports") / "store")


@pytest.fixture(scope="session")
def ports_target(ports_store: StoreFolder, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The place that they shipped to."""
    return shipped(ports_store, tmp_path_factory.mktemp("ports") / "target")


@pytest.fixture(scope="session")
def ports_done(ports_target: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The results of both days, by rack."""
    return results(ports_target, odd(tmp_path_factory.mktemp("ports")))


@pytest.fixture(scope="session")
def ports_by_host(ports_target: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The results of both days, by host."""
    return results(ports_target, tmp_path_factory.mktemp("ports-by-host") / "results", "host")
