"""What tests of every room share."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from places import ROOT

pytest_plugins = ["livelab", "netlab"]


@pytest.fixture(scope="session")
def captures() -> Path:
    """The folder of recorded captures, which is not part of the repository."""
    folder = Path(os.environ.get("MBURST_CAPTURES", ROOT.parent / "shared" / "captures"))
    if not folder.is_dir():
        pytest.skip(f"no recorded captures at {folder}: set MBURST_CAPTURES")
    return folder
