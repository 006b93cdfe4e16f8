"""What a hypervisor took of this machine's processors."""

from __future__ import annotations

from pathlib import Path

_STAT = Path("/proc/stat")


class StolenTime:
    """Counts from when it is made."""

    def __init__(self) -> None:
        self._before = _ticks()

    def share(self) -> float:
        """The share of the time of all processors that other guests had; 0 where nobody says."""
        ticks, stolen = (now - before for now, before in zip(_ticks(), self._before, strict=True))
        return stolen / ticks if ticks else 0.0


def _ticks() -> tuple[int, int]:
    """(all, stolen) clock ticks of all processors since boot: proc(5), stat, user to steal."""
    ticks = [int(word) for word in _STAT.read_text().partition("\n")[0].split()[1:9]]
    return sum(ticks), ticks[7]
