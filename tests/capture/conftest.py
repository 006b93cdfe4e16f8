"""The odd captures with which the readers and the decoder are tested."""

from __future__ import annotations

from pathlib import Path

import pytest
from captures import recorded_wild
from sample_captures import write_samples


@pytest.fixture(scope="session")
def odd_captures(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """The samples, and other people's captures if they are available."""
    return [*write_samples(tmp_path_factory.mktemp("samples") / "wild"), *recorded_wild()]
