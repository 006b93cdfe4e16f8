"""The packages in dist/: `make test-packages` makes them first."""

from __future__ import annotations

import os
from collections.abc import Generator
from pathlib import Path

import pytest
from places import ROOT


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """What a release is made of was tested: what was skipped fails."""
    report = yield
    if report.skipped and os.environ.get("MBURST_RELEASE"):
        report.outcome = "failed"
        report.longrepr = f"a release needs this test: {report.longrepr}"
    return report


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
