"""The speeds of links."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Speeds:
    """Bits per second: by (device, port), and for all others."""

    known: Mapping[tuple[str, str], int] = field(default_factory=dict)
    others: int | None = None

    def of(self, device: str, port: str) -> int | None:
        """The speed of one port; None if it is not known."""
        return self.known.get((device, port), self.others)
