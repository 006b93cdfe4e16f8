"""The browser in which all pages are opened."""

from __future__ import annotations

import pytest
from browserlib import CHROMIUM, FLAGS
from places import ROOT


@pytest.fixture(scope="module")
def browser():
    sync_api = pytest.importorskip("playwright.sync_api")
    if not CHROMIUM.exists():
        pytest.skip(f"no browser at {CHROMIUM}: apt install chromium-headless-shell, or set MBURST_CHROMIUM")
    with sync_api.sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield chromium
        chromium.close()


@pytest.fixture(scope="module")
def page_with(browser):
    """Opens an empty page with one of the dashboards' own scripts, given by name."""
    pages = []

    def open_page(script):
        pages.append(browser.new_page())
        pages[-1].add_script_tag(path=ROOT / "dashboards" / "static" / script)
        return pages[-1]

    yield open_page
    for page in pages:
        page.close()
