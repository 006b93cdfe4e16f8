"""Every page opens with its answer, three figures and its picture; nothing is clipped, and tables use the width."""

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


@pytest.fixture
def opened(browser, written):
    readers = []

    def opener(name, size, **context):
        viewport = {"width": size[0], "height": size[1]}
        reader = Reader(browser, f"file://{written[name]}", viewport=viewport, **context)
        readers.append(reader)
        return reader.page

    yield opener
    for reader in readers:
        reader.context.close()


def opens_with_answer_and_picture(page, size, of_picture=0):
    """At least OF_PICTURE pixels of the picture are in the first screen; 0: all of it."""
    assert page.evaluate("document.documentElement.scrollWidth") <= size[0]
    assert page.locator("main .lead, header .lead").count() == 1
    assert page.locator(".tiles").first.locator(".tile").count() == 3
    assert page.evaluate(BOTTOM, ".lead") <= page.evaluate(BOTTOM, ".tiles") <= size[1]
    box = page.locator(PICTURE).first.bounding_box()
    assert box["y"] + (of_picture or box["height"]) <= size[1]
    assert page.evaluate(CLIPPED) == []


@pytest.mark.parametrize("name", NAMES)
def test_the_first_screen_has_the_answer_three_figures_and_the_picture(opened, name):
    page = opened(name, DESKTOP)
    opens_with_answer_and_picture(page, DESKTOP)
    assert page.evaluate(NARROW) == [] and page.evaluate(OVERFLOWING) == []
    page.set_viewport_size({"width": WIDE[0], "height": WIDE[1]})
    page.wait_for_timeout(300)
    opens_with_answer_and_picture(page, WIDE)


@pytest.mark.parametrize("name", NAMES)
def test_so_has_that_of_a_phone(opened, name):
    page = opened(name, PHONE, is_mobile=True, has_touch=True)
    opens_with_answer_and_picture(page, PHONE, of_picture=200 if name == "report" else 60)


LOOKS = {"light": {}, "dark": {"color_scheme": "dark"}, "phone": {"is_mobile": True, "has_touch": True}}


@pytest.mark.parametrize("look", LOOKS)
@pytest.mark.parametrize("name", NAMES)
def test_axe_finds_nothing(opened, name, look):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright")
    page = opened(name, PHONE if look == "phone" else DESKTOP, **LOOKS[look])
    found = axe.Axe().run(page)
    assert found.violations_count == 0, found.generate_report()
