"""Every page opens with its answer, three figures and its picture. Nothing is clipped, and tables use the width."""

from __future__ import annotations

import pytest
from browserlib import Reader
from pagelib import pages

NAMES = ("report", "investigation", "rack", "fleet", "rack of a fleet")
DESKTOP, PHONE, WIDE = (1300, 800), (390, 844), (2560, 1440)
BOTTOM = "place => document.querySelector(place)?.getBoundingClientRect().bottom + scrollY"
PICTURE = ".timeline, section.first svg.heat"
CLIPPED = """() => [...document.querySelectorAll('svg text')].map((text) => {
    let svg = text.ownerSVGElement;
    while (svg.ownerSVGElement) svg = svg.ownerSVGElement;
    return [text, text.getBoundingClientRect(), svg.getBoundingClientRect()];
}).filter(([text, t, s]) => t.width && s.width
    && (t.left < s.left - 1 || t.right > s.right + 1 || t.top < s.top - 1 || t.bottom > s.bottom + 1))
    .map(([text]) => text.textContent)"""
NARROW = """() => [...document.querySelectorAll('main table')].filter((table) => table.clientWidth
    && table.getBoundingClientRect().width < 0.97 * table.closest('section').getBoundingClientRect().width)
    .map((table) => table.textContent.slice(0, 80))"""
OVERFLOWING = """() => [...document.querySelectorAll('main .scroll')]
    .filter((box) => box.scrollWidth > box.clientWidth + 1).map((box) => box.textContent.trim().slice(0, 80))"""


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    folder = tmp_path_factory.mktemp("first-screen")
    found = {}
    for name, html in pages(folder, "r1").items():
        found[name] = folder / f"{name}.html".replace(" ", "-")
        found[name].write_text(html)
    return found


def opened(browser, path, size, **context):
    reader = Reader(browser, f"file://{path}", viewport={"width": size[0], "height": size[1]}, **context)
    yield reader.page
    reader.context.close()


@pytest.fixture(scope="module", params=NAMES)
def desktop(request, browser, written):
    """A page that several tests share. Each sets the size and the colour scheme that it needs."""
    yield from opened(browser, written[request.param], DESKTOP)


@pytest.fixture(scope="module", params=NAMES)
def phone(request, browser, written):
    """The same on a phone."""
    yield from opened(browser, written[request.param], PHONE, is_mobile=True, has_touch=True)


def resize(page, size):
    page.set_viewport_size({"width": size[0], "height": size[1]})
    page.wait_for_timeout(300)


def opens_with_answer_and_picture(page, size, of_picture=0):
    """Checks that at least OF_PICTURE pixels of the picture are in the first screen; 0 means all of it."""
    assert page.evaluate("document.documentElement.scrollWidth") <= size[0]
    assert page.locator("main .lead, header .lead").count() == 1
    assert page.locator(".tiles").first.locator(".tile").count() == 3
    assert page.evaluate(BOTTOM, ".lead") <= page.evaluate(BOTTOM, ".tiles") <= size[1]
    box = page.locator(PICTURE).first.bounding_box()
    assert box["y"] + (of_picture or box["height"]) <= size[1]
    assert page.evaluate(CLIPPED) == []


def test_the_first_screen_has_the_answer_three_figures_and_the_picture(desktop):
    resize(desktop, DESKTOP)
    opens_with_answer_and_picture(desktop, DESKTOP)
    assert desktop.evaluate(NARROW) == [] and desktop.evaluate(OVERFLOWING) == []
    resize(desktop, WIDE)
    opens_with_answer_and_picture(desktop, WIDE)


def test_the_first_screen_of_a_phone_has_the_answer_figures_and_picture(phone, request):
    is_report = request.node.callspec.params["phone"] == "report"
    opens_with_answer_and_picture(phone, PHONE, of_picture=200 if is_report else 60)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_reports_no_violation(desktop, scheme):
    desktop.set_viewport_size({"width": DESKTOP[0], "height": DESKTOP[1]})
    if desktop.evaluate("matchMedia('(prefers-color-scheme: dark)').matches") != (scheme == "dark"):
        desktop.emulate_media(color_scheme=scheme)
        desktop.reload()
        if desktop.locator("script").count():
            desktop.wait_for_selector("html[data-ready]", timeout=60_000)
    axe_finds_nothing(desktop)


def test_axe_reports_no_violation_on_a_phone(phone):
    axe_finds_nothing(phone)


def axe_finds_nothing(page):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright")
    found = axe.Axe().run(page)
    assert found.violations_count == 0, found.generate_report()
