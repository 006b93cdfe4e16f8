"""Looks at a live store, one after the other, for whatever shows it: what came, and which bursts ended."""

from __future__ import annotations

import time
from collections.abc import Callable

from ... import shortage
from ...errors import MburstError
from .bursts import LiveBursts
from .store import LiveStore

BURSTS_EVERY_S = 1.0


class LiveLook:
    """Keeps a live store and its bursts up to date. `troubles` says why the last look failed, '' where it did not."""

    def __init__(self, live: LiveStore, bursts: LiveBursts) -> None:
        self.live = live
        self.bursts = bursts
        self.troubles = dict.fromkeys(("store", "bursts"), "")
        self._looked = 0.0

    def __call__(self) -> bool:
        """Whether there is something new."""
        before = dict(self.troubles)
        changed = self._tried("store", self.live.poll)
        if time.monotonic() - self._looked >= BURSTS_EVERY_S:
            self._looked = time.monotonic()
            changed |= self._tried("bursts", self._look)
        return changed or self.troubles != before

    def _look(self) -> bool:
        with self.live.lock:
            return self.bursts.look()

    def _tried(self, what: str, look: Callable[[], bool]) -> bool:
        """What LOOK returns. Where it fails, the view stops, shows why, and tries again."""
        try:
            changed = look()
        except Exception as error:
            known = error if isinstance(error, MburstError) else shortage.of(error)
            self.troubles[what] = str(known or f"internal error: {error!r}")
            return False
        self.troubles[what] = ""
        return changed

    @property
    def lines(self) -> list[str]:
        """What is wrong: damaged files, and looks that failed."""
        return [*self.live.damage, *filter(None, self.troubles.values())]
