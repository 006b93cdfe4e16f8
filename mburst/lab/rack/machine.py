"""The processor time that a hypervisor took from this machine."""

from __future__ import annotations

from pathlib import Path

_STAT = Path("/proc/stat")


class StolenTime:
    """Measures stolen time from its creation on."""

    def __init__(self) -> None:
        self._before = _ticks()

    def share(self) -> float:
        """Returns the share of the time of all processors that other guests had; 0 if it is not reported."""
        ticks, stolen = (now - before for now, before in zip(_ticks(), self._before, strict=True))
        return stolen / ticks if ticks else 0.0


def _ticks() -> tuple[int, int]:
    """Returns (all, stolen) clock ticks of all processors since boot: proc(5), stat, user to steal."""
    ticks = [int(word) for word in _STAT.read_text().partition("\n")[0].split()[1:9]]
    return sum(ticks), ticks[7]
