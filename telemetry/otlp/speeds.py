"""How fast links are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Speeds:
    """Bits a second: of (device, port), and of all others."""

    known: Mapping[tuple[str, str], int] = field(default_factory=dict)
    others: int | None = None

    def of(self, device: str, port: str) -> int | None:
        """Of one port; None where it is not known."""
        return self.known.get((device, port), self.others)
