"""The packages in dist/: `make test-packages` makes them first."""

from __future__ import annotations

from pathlib import Path

import pytest
from places import ROOT


def only(pattern: str, make: str) -> Path:
    """The one file of dist/ with such a name."""
    found = list((ROOT / "dist").glob(pattern))
    if not found:
        pytest.skip(f"no dist/{pattern} (make {make})")
    assert len(found) == 1, found
    return found[0]


@pytest.fixture(scope="session")
def wheel() -> Path:
    return only("mburst-*.whl", "wheel")


@pytest.fixture(scope="session")
def sdist() -> Path:
    return only("mburst-*.tar.gz", "wheel")


@pytest.fixture(scope="session")
def deb() -> Path:
    return only("mburst_*.deb", "deb")
