"""Recordings of switch ports, which `mburst collect` makes from samples."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any


def of_port(recordings: Iterable[Mapping[str, Any]]) -> bool:
    """Returns whether rows of `recordings` are of a port of a switch; their host is then the switch."""
    return any(recording["backend"] == "otlp" for recording in recordings)
