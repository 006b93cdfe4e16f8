"""Recordings of switch ports, which `mburst collect` makes of samples."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any


def of_port(recordings: Iterable[Mapping[str, Any]]) -> bool:
    """Whether rows of `recordings` are of a switch's port, and their host is the switch."""
    return any(run["backend"] == "otlp" for run in recordings)
