"""A page as a reader sees it, in Debian's Chromium: chromium-headless-shell if it is installed, which takes two thirds
of the processor time of the full browser for the same pages."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

_BROWSERS = ("chromium-headless-shell", "chromium")


def _browser() -> Path:
    """Returns MBURST_CHROMIUM, or the first browser that this machine has; if it has none, a path that does not
    exist."""
    found = os.environ.get("MBURST_CHROMIUM") or next(filter(None, map(shutil.which, _BROWSERS)), None)
    return Path(found or f"/usr/bin/{_BROWSERS[0]}")


CHROMIUM = _browser()
FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    # With a debugger, an error that plotly.js catches makes V8 parse all of it again for the line numbers: a seventh of
    # the processor time of these tests.
    "--js-flags=--no-enable-lazy-source-positions",
]
TRACE = "role => { const t = document.querySelector('.timeline').data.find(t => t.meta === role); return [t.x, t.y]; }"

WIDTHS = "[...document.querySelectorAll('.js-plotly-plot')].map(p => [p.clientWidth, p._fullLayout.width])"
PAPER = 182 / 25.4 * 96  # A4 with margins of 14 mm, in pixels of CSS


class Reader:
    """An open page, with everything that failed or was requested in it."""

    def __init__(self, browser, url, **context):
        self.context = browser.new_context(**{"viewport": {"width": 1400, "height": 1000}, **context})
        self.page = self.context.new_page()
        self.troubles: list[str] = []
        self.requests: list[str] = []
        self.page.on("console", lambda message: self.troubles.append(message.text))
        self.page.on("pageerror", lambda error: self.troubles.append(str(error)))
        self.page.on("dialog", lambda dialog: self.troubles.append("dialog") or dialog.dismiss())
        self.context.on("request", lambda request: self.requests.append(request.url))
        self.page.goto(url)
        if self.page.locator("script").count():  # which sets it when it has drawn
            self.page.wait_for_selector("html[data-ready]", timeout=60_000)

    def trace(self, role):
        x, y = self.page.evaluate(TRACE, role)
        return x, y

    def click(self, selector):
        self.page.click(selector)
        self.page.wait_for_timeout(150)

    def widths(self, event=""):
        """Returns the width of each figure that is shown, after an event of printing. Its place has the same one."""
        if event:
            self.page.evaluate(f"dispatchEvent(new Event('{event}'))")
            self.page.wait_for_timeout(500)
        found = [pair for pair in self.page.evaluate(WIDTHS) if pair[0]]
        assert found and all(abs(place - drawn) < 2 for place, drawn in found)
        return [drawn for _, drawn in found]

    def check_paper(self):
        """Assert that figures are as wide as paper while they are printed, and only then. They kept the width of the
        window: of 20 s, paper had the first 13; and those that are side by side in a window stayed a third as wide."""
        on_screen = self.widths()
        assert max(on_screen) > PAPER
        assert all(abs(width - PAPER) <= 1 for width in self.widths("beforeprint"))
        assert self.widths("afterprint") == on_screen
