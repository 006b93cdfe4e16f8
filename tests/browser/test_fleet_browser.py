"""A fleet's report on screen and on paper: Debian's Chromium opens the files, without a network."""

from __future__ import annotations

import io
import shutil
import subprocess

import pytest
from browserlib import CHROMIUM, FLAGS
from fleettables import tables
from pagelib import fleet_figures
from PIL import Image

from mburst.dashboards.fleet import page

LONG = "rack with a long name " * 6


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    root = tmp_path_factory.mktemp("fleet-browser")
    fleet, racks = fleet_figures(root / "results", tables(5, racks=4, hosts=12, bursts=300), LONG)
    for rack in racks:
        page.write_rack(rack, root / "out")
    page.write_fleet(fleet, root / "out", [rack.sums.rack for rack in racks])
    return root / "out"


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (768, "light"), (390, "dark")])
def test_fleet_and_racks_open_without_a_request_or_an_error(browser, folder, width, scheme):
    context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
    opened, requests, troubles = context.new_page(), [], []
    context.on("request", lambda request: requests.append(request.url))
    opened.on("console", lambda message: troubles.append(message.text))
    opened.on("pageerror", lambda error: troubles.append(str(error)))
    opened.goto(f"file://{folder}/fleet-2026-11-20.html")
    assert opened.evaluate("document.documentElement.scrollWidth") <= width
    assert opened.locator("svg.heat rect.hot").count() and opened.locator("svg.ecdf").count() == 3
    opened.click("ul.names a:has-text('r4')")
    opened.wait_for_selector("h1:has-text('Rack r4')")
    assert opened.evaluate("document.documentElement.scrollWidth") <= width
    opened.click("text=the whole fleet")
    opened.wait_for_selector("h1:has-text('Fleet of')")
    opened.click("svg.heat a >> nth=0")
    opened.wait_for_selector("h1:has-text('Rack')")
    assert troubles == [] and len(requests) == 4 and all(url.startswith("file://") for url in requests)
    context.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", ["fleet-2026-11-20.html", "fleet-2026-11-20/*.html"])
def test_a_table_that_is_cut_has_a_shadow_where_it_goes_on(browser, folder, name, scheme):
    """On a phone. The shadow is at the right edge of the first screen, and at the left edge of the last one."""
    opened = browser.new_page(viewport={"width": 400, "height": 900}, color_scheme=scheme)
    opened.goto(f"file://{next(folder.glob(name))}")
    cut = "[...document.querySelectorAll('.scroll:has(>table)')].filter(e => e.scrollWidth > e.clientWidth)"
    assert opened.evaluate(f"{cut}.length")
    assert opened.evaluate(
        f"{cut}.every(e => getComputedStyle(e).backgroundImage.split('linear-gradient').length == 5)"
    )
    table, edges = opened.evaluate_handle(f"{cut}[0]").as_element(), []
    for left in (0, 9999):
        table.evaluate("(e, left) => { e.scrollLeft = left }", left)
        image = Image.open(io.BytesIO(table.screenshot())).convert("L")
        row = image.height - 3  # below the text of the last row
        inner = image.getpixel((image.width // 2, row))
        edges.append([abs(image.getpixel((x, row)) - inner) > 8 for x in (1, image.width - 2)])
    assert edges == [[False, True], [True, False]]
    opened.close()


def test_headings_and_pictures_of_a_fleet_have_names(browser, folder):
    for path in [folder / "fleet-2026-11-20.html", *(folder / "fleet-2026-11-20").glob("*.html")]:
        opened = browser.new_page()
        opened.goto(f"file://{path}")
        levels = opened.evaluate("[...document.querySelectorAll('h1, h2, h3')].map(e => +e.tagName[1])")
        assert levels[0] == 1 and set(levels[1:]) == {2}
        assert opened.evaluate("[...document.querySelectorAll('svg:not([aria-hidden])')].every(e => e.ariaLabel)")
        assert opened.evaluate("[...document.querySelectorAll('table')].every(t => t.caption && t.tHead)")
        texts = "[...document.querySelectorAll('svg.ecdf')].every(s => s.getBoundingClientRect().left > 0)"
        assert opened.evaluate(texts)
        opened.close()


def test_the_report_of_a_fleet_can_be_printed(folder, tmp_path):
    if not CHROMIUM.exists() or not shutil.which("pdftotext"):
        pytest.skip("needs chromium and pdftotext (poppler-utils)")
    target, source = tmp_path / "report.pdf", f"file://{folder}/fleet-2026-11-20.html"
    command = [CHROMIUM, *FLAGS, "--no-pdf-header-footer", f"--print-to-pdf={target}", source]
    subprocess.run(command, check=True, capture_output=True, timeout=120)
    text = subprocess.run(["pdftotext", "-layout", target, "-"], check=True, capture_output=True, text=True).stdout
    assert 2 <= text.count("\f") <= 9, "with a table of switch ports"
    for wanted in ("Fleet of", "Who receives bursts", "What is lost", "Durations, gaps and bins", "All racks"):
        assert wanted in text
