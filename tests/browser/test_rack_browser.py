"""A rack's report on screen and on paper: Debian's Chromium opens the file, without a network."""

from __future__ import annotations

import shutil
import subprocess

import pytest
from browserlib import CHROMIUM, FLAGS
from racklib import fill, report

from mburst.dashboards.rack import page
from mburst.sql import StoreFolder


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    root = tmp_path_factory.mktemp("rack-browser")
    store = StoreFolder.create(root / "store")
    hosts = {f"host-{i:02}": [(j * 3_600_000 + i * 977, 3 + (i + j) % 20) for j in range(i)] for i in range(12)}
    fill(store, hosts, senders=[f"10.0.0.{i}" for i in range(1, 6)])
    page.write(report(store), root / "out")
    page.write_index(root / "out")
    return root / "out"


@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_index_and_report_open_without_a_request_or_an_error(browser, folder, width, scheme):
    context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
    opened, requests, troubles = context.new_page(), [], []
    context.on("request", lambda request: requests.append(request.url))
    opened.on("console", lambda message: troubles.append(message.text))
    opened.on("pageerror", lambda error: troubles.append(str(error)))
    opened.goto(f"file://{folder}/index.html")
    opened.click("text=r1")
    opened.wait_for_selector("h1:has-text('Rack r1')")
    assert troubles == [] and len(requests) == 2 and all(url.startswith("file://") for url in requests)
    assert opened.evaluate("document.documentElement.scrollWidth") <= width
    assert opened.locator("svg.heat rect.hot").count() == sum(range(12))
    dark = opened.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(20, 23, 26)"
    assert dark == (scheme == "dark")
    context.close()


@pytest.mark.parametrize("width", [360, 768, 1280])
def test_a_strip_that_is_cut_off_says_so(browser, folder, width):
    """On a phone it ended in the middle of the day, without a sign that there is more."""
    opened = browser.new_page(viewport={"width": width, "height": 900})
    opened.goto(f"file://{next(folder.glob('rack-*.html'))}")
    strip = ".scroll:has(> svg.heat)"
    said = opened.evaluate(f"getComputedStyle(document.querySelector('{strip}'), '::before').content") != "none"
    assert said == opened.evaluate(f"(e => e.scrollWidth > e.clientWidth)(document.querySelector('{strip}'))")
    opened.close()


def test_headings_and_pictures_have_names(browser, folder):
    opened = browser.new_page()
    opened.goto(f"file://{next(folder.glob('rack-*.html'))}")
    levels = opened.evaluate("[...document.querySelectorAll('h1, h2, h3')].map(e => +e.tagName[1])")
    assert levels[0] == 1 and set(levels[1:]) == {2}
    assert opened.evaluate("[...document.querySelectorAll('svg:not([aria-hidden])')].every(e => e.ariaLabel)")
    assert opened.evaluate("[...document.querySelectorAll('table')].every(t => t.caption && t.tHead)")
    opened.close()


def test_the_report_can_be_printed(folder, tmp_path):
    if not CHROMIUM.exists() or not shutil.which("pdftotext"):
        pytest.skip("needs chromium and pdftotext (poppler-utils)")
    target = tmp_path / "report.pdf"
    subprocess.run(
        [
            CHROMIUM,
            *FLAGS,
            "--no-pdf-header-footer",
            f"--print-to-pdf={target}",
            f"file://{next(folder.glob('rack-*.html'))}",
        ],
        check=True,
        capture_output=True,
        timeout=120,
    )
    text = subprocess.run(["pdftotext", "-layout", target, "-"], check=True, capture_output=True, text=True).stdout
    pages = text.count("\f")
    assert 2 <= pages <= 6
    for wanted in ("Rack r1", "Hosts and interfaces", "host-11 eth0 inbound", "Senders in bursts", "Largest bursts"):
        assert wanted in text
    assert "…" not in text.split("Hosts and interfaces")[0]
