"""The live view's page as a reader sees it, and the times in its links."""

from __future__ import annotations

import time

import numpy as np
from browserlib import Reader
from livestore import SECOND

PATIENCE = 60_000  # ms: the machine may be busy


class LiveReader(Reader):
    def trace(self, role):
        """Returns the data from which the figure was last drawn."""
        x, y = self.page.evaluate("role => [view.timeline.found[role].x, view.timeline.found[role].y]", role)
        return x, y

    def wait(self, condition, argument=None):
        """Waits until the condition holds. It is evaluated from outside: the page's policy forbids what
        wait_for_function does inside."""
        until = time.monotonic() + PATIENCE / 1000
        while not self.page.evaluate(condition, argument):
            assert time.monotonic() < until, condition
            self.page.wait_for_timeout(50)

    def stand(self, start_ns, end_ns):
        """Goes to a time by its link, and waits until its own cells are drawn."""
        self.page.evaluate(
            "([from, to]) => { location.hash = `lane=${view.lane.id}&from=${from}&to=${to}`; }",
            [iso(start_ns), iso(end_ns)],
        )
        self.wait(
            "([a, b]) => view.still && view.range && Math.abs(view.range[0] - a) < 1000 && "
            "view.still.start <= a && view.still.end >= b && view.timeline.lane.base === view.still.base && "
            "!view.timeline.drawing",
            [start_ns - day_of(start_ns), end_ns - day_of(start_ns)],
        )


def day_of(ns: int) -> int:
    return ns // (86_400 * SECOND) * 86_400 * SECOND


def iso(ns: int) -> str:
    return f"{np.datetime64(ns // SECOND, 's')}.{ns % SECOND:09d}Z"
