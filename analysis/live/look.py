"""Checks a live store repeatedly for its viewers: new rows, and ended bursts."""

from __future__ import annotations

import time
from collections.abc import Callable

from ...errors import MburstError
from ...process import shortage
from .bursts import LiveBursts
from .store import LiveStore

BURSTS_EVERY_S = 1.0


class LiveLook:
    """Keeps a live store and its bursts up to date. `troubles` has the reason why the last look failed, '' if it did
    not."""

    def __init__(self, live: LiveStore, bursts: LiveBursts) -> None:
        self.live = live
        self.bursts = bursts
        self.troubles = dict.fromkeys(("store", "bursts"), "")
        self._looked = 0.0

    def __call__(self) -> bool:
        """Returns whether there is something new."""
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
        """Returns the result of LOOK. If it fails, the view stops, shows the reason, and tries again."""
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
        """The current problems: damaged files, and looks that failed."""
        return [*self.live.damage, *filter(None, self.troubles.values())]
