"""The odd captures that the readers and the decoder are held against."""

from __future__ import annotations

from pathlib import Path

import pytest
from captures import recorded_wild
from sample_captures import write_samples


@pytest.fixture(scope="session")
def odd_captures(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """The samples, and other people's captures where they are."""
    return [*write_samples(tmp_path_factory.mktemp("samples") / "wild"), *recorded_wild()]
