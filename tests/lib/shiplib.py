"""Tests of `ship` on a store of two hosts and a folder as target: the fixtures, and one call."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from racklib import fill

from mburst.fleet import ship
from mburst.fleet.receipts import files_of, read_receipts
from mburst.fleet.ship import Shipped, ShipSettings
from mburst.fleet.target import FleetTarget, open_target
from mburst.sql import StoreFolder
from mburst.sql.tables import LISTING


@pytest.fixture
def archive(tmp_path: Path) -> FleetTarget:
    """A folder as target, for tests that do not depend on the kind of target."""
    return open_target(tmp_path / "archive")


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store of two hosts with 6 files."""
    store = StoreFolder.create(tmp_path_factory.mktemp("filled") / "store")
    fill(store, {"cache-1": [(50, 10)], "cache-2": [(70, 5)]})
    return store.path


@pytest.fixture
def store(filled: Path, tmp_path: Path) -> StoreFolder:
    shutil.copytree(filled, tmp_path / "store")
    return StoreFolder.open(tmp_path / "store")


def sealed(store: StoreFolder) -> dict[str, Path]:
    """Returns the sealed files of a store by key."""
    found = [path for table in LISTING for path in (store.path / table).glob("date=*/rack=*/*.parquet")]
    return {path.relative_to(store.path).as_posix(): path for path in found}


def data(target: FleetTarget) -> dict[str, bytes]:
    """Returns the data files of a target by key: no receipts, no marker, and none of the files that readers leave in a
    folder."""
    keys = [stored.key for stored in target.list() if stored.key.endswith(".parquet")]
    return {key: target.get(key) for key in keys}


def has_arrived(store: StoreFolder, target: FleetTarget) -> None:
    """Asserts that each sealed file is at the target once, with the same bytes, and in a receipt with its SHA-256."""
    here = {key: path.read_bytes() for key, path in sealed(store).items()}
    assert data(target) == here
    stated = files_of(read_receipts(target))
    assert stated.keys() == here.keys()
    assert all(target.sha256(key) == file.sha256 and len(here[key]) == file.bytes for key, file in stated.items())


def sums(shipped: Shipped) -> tuple[int, int, int]:
    """Returns the number of files sent, of files that had already arrived, and of receipts."""
    hosts = shipped.hosts
    return sum(of.sent for of in hosts), sum(of.there for of in hosts), sum(len(of.receipts) for of in hosts)


def call(store: StoreFolder, target: FleetTarget, **settings: Any) -> Shipped:
    return ship.ship(store, target, ShipSettings(**settings))
