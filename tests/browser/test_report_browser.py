"""The report in a browser: Debian's Chromium opens the file, without a network."""

from __future__ import annotations

import numpy as np
import pytest
import reportlib
from browserlib import Reader
from reportlib import BIN, LONG, PROBE, SHORT, START

from mburst.analysis.answers.host import Limits
from mburst.sql import StoreFolder

ZERO = START // 60_000_000_000 * 60_000_000_000


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    """Reports by name: `plain`; `hostile`, with names from an attacker; `coarse`, with more bins than fit."""
    folder, made = tmp_path_factory.mktemp("browser"), {}
    for name in ("plain", "hostile"):
        store = StoreFolder.create(folder / f"store-{name}")
        reportlib.fill(store, hostile=name == "hostile")
        made[name] = reportlib.written(store, folder / name)
        if name == "plain":
            few = Limits(whole_bins=2000, cells=1000, detail_bins=1000)
            made["coarse"] = reportlib.written(store, folder / "coarse", few)
    return made


@pytest.fixture
def open_page(browser, pages):
    opened = []

    def opener(name="plain", **context):
        opened.append(Reader(browser, f"file://{pages[name]}", **context))
        return opened[-1]

    yield opener
    for reader in opened:
        reader.context.close()


@pytest.fixture(scope="module")
def plain(browser, pages):
    """One page that several tests share; none depends on what another chose or sorted."""
    reader = Reader(browser, f"file://{pages['plain']}")
    yield reader
    reader.context.close()


def at(number: int) -> float:
    """Returns where a bin begins on the page's axis, in seconds."""
    return (START + number * BIN - ZERO) / 1e9


def largest_between(reader, first: int, last: int) -> float:
    """Returns the largest utilization that is drawn anywhere in [first, last) bins."""
    x, y = reader.trace("largest")
    begin, end = at(first), at(last)
    return max(v for a, b, v in zip(x, [*x[1:], end], y, strict=True) if v is not None and a < end and b > begin)


def test_the_page_makes_no_request_and_logs_no_error(open_page, pages):
    reader = open_page()
    for what in ("next", "in", "out", "right", "all", "previous"):
        reader.click(f"[data-do={what}]")
    assert reader.requests == [f"file://{pages['plain']}"]
    assert reader.troubles == []
    assert reader.page.locator("#trouble").is_hidden()


def test_the_drawn_data_is_that_of_the_store(open_page):
    reader = open_page()
    reader.click("[data-do=next]")
    reader.page.locator("table.bursts tbody tr", has_text="200 µs").click()
    reader.click(".fanin button")
    x, y = reader.trace("largest")
    wire = reportlib.wire()
    drawn = {round((t - at(0)) * 1e9 / BIN): v for t, v in zip(x, y, strict=True) if v}
    assert {SHORT, SHORT + 1} <= drawn.keys()
    for number, value in drawn.items():
        assert value == pytest.approx(wire[number] * 8e9 / BIN / 1e9 * 100, rel=1e-12)
    shown = range(min(drawn), max(drawn) + 1)
    assert {number for number in wire if number in shown} == drawn.keys()


def test_a_burst_of_200_us_is_visible_at_every_zoom(open_page):
    reader = open_page()
    assert largest_between(reader, SHORT, SHORT + 2) == 100.0
    x, _ = reader.trace("marks")
    assert len(x) == 2 * 3
    seconds, average = reader.trace("second")
    assert max(value for value in average if value is not None) < 10
    assert len(seconds) >= reportlib.SECONDS
    middle = at(SHORT + 1)
    for span in np.geomspace(20, 0.002, 12):
        reader.page.evaluate(
            "range => Plotly.relayout(document.querySelector('.timeline'), {'xaxis.range': range})",
            [middle - span / 2, middle + span / 2],
        )
        reader.page.wait_for_timeout(60)
        assert largest_between(reader, SHORT, SHORT + 2) == 100.0
    assert "every bin of 100 µs by itself" in reader.page.locator(".step").text_content()


def test_a_report_of_two_seconds_in_a_week_opens_where_the_largest_burst_is(browser, tmp_path):
    store = StoreFolder.create(tmp_path / "store")
    first, last = reportlib.fill_apart(store, 7 * 86_400 * 10**9)
    reader = Reader(browser, f"file://{reportlib.written(store, tmp_path / 'out')}")
    try:
        shown = "() => document.querySelector('.timeline').layout.xaxis.range"
        assert reader.page.evaluate(shown) == [(ns - ZERO) / 1e9 for ns in (last, last + 10**9)]
        assert reader.page.locator(".step").text_content().startswith("Shown: 1 s of 7 d in steps of")
        reader.page.locator(".timeline .nsewdrag").first.dblclick()
        reader.page.wait_for_selector(".step:has-text('Shown: 7 d in')")
        assert reader.page.evaluate(shown) == [(ns - ZERO) / 1e9 for ns in (first, last + 10**9)]
        assert reader.page.locator(".fanin .when").text_content().startswith("2026-11-28 02:34:00.1")
        assert reader.troubles == []
    finally:
        reader.context.close()


def test_a_burst_is_visible_at_every_width_of_the_page(open_page):
    reader = open_page()
    for width in (1400, 700, 420):
        reader.page.set_viewport_size({"width": width, "height": 900})
        reader.page.wait_for_timeout(300)
        assert largest_between(reader, SHORT, SHORT + 2) == 100.0
        assert largest_between(reader, LONG, LONG + 300) == 100.0


def test_a_coarse_page_has_every_bin_of_its_bursts(open_page):
    reader = open_page("coarse")
    assert largest_between(reader, SHORT, SHORT + 2) == 100.0
    assert "more than a page can hold" in reader.page.locator("figcaption").first.text_content()
    reader.page.locator("table.bursts tbody tr", has_text="200 µs").click()
    reader.click(".fanin button")
    assert "every bin of 100 µs by itself" in reader.page.locator(".step").text_content()
    assert largest_between(reader, SHORT + 1, SHORT + 2) == pytest.approx(72.0)


def test_latency_and_queue_are_on_the_same_axis(plain):
    reader = plain
    reader.click("[data-do=all]")
    x, y = reader.trace("latency")
    slow = y.index(max(y))
    assert y[slow] == pytest.approx(10.02, abs=0.001) and x[slow] == (START + 500 * PROBE + 3 - ZERO) / 1e9
    lost, _ = reader.trace("lost")
    assert lost == [(START + 1000 * PROBE + 3 - ZERO) / 1e9]
    x, y = reader.trace("queue")
    full = [when for when, value in zip(x, y, strict=True) if value == 3.0]
    assert min(full) <= (START + 500 * 10**7 - ZERO) / 1e9 and max(full) >= (START + 501 * 10**7 - ZERO) / 1e9


def test_a_single_probe_is_visible(open_page):
    """If the zoomed time has only one probe, its latency is a point, because a line would have no length."""
    reader = open_page()
    dots = """() => [...document.querySelectorAll('.timeline .scatterlayer .points path')]
        .filter((one) => one.getBBox().width).length"""
    assert reader.page.evaluate(dots) == 1, "the lost probe"
    sent = (START + 700 * PROBE - ZERO) / 1e9
    reader.page.evaluate(
        "range => Plotly.relayout(document.querySelector('.timeline'), {'xaxis.range': range})",
        [sent - 3e-3, sent + 3e-3],
    )
    reader.page.wait_for_timeout(300)
    assert len(reader.trace("latency")[0]) == 1 and reader.page.evaluate(dots) == 2


def test_the_table_sorts_by_mouse_and_by_keyboard(plain):
    reader = plain
    column = "[...document.querySelectorAll('table.bursts tbody tr')].map(row => Number(row.cells[2].dataset.key))"
    head = reader.page.locator("table.bursts thead th").nth(2)
    head.locator("button").click()
    assert reader.page.evaluate(column) == [300 * BIN, 2 * BIN]
    assert head.get_attribute("aria-sort") == "descending"
    head.locator("button").focus()
    reader.page.keyboard.press("Enter")
    assert reader.page.evaluate(column) == [2 * BIN, 300 * BIN]
    assert head.get_attribute("aria-sort") == "ascending"
    assert reader.page.locator("table.bursts thead th[aria-sort]").count() == 1


def test_a_selected_burst_shows_its_senders(plain):
    reader = plain
    who = reader.page.locator(".fanin .who")
    reader.page.locator("table.bursts tbody tr", has_text="30 ms").click()
    assert who.all_text_contents() == [f"10.0.0.{i}" for i in range(1, 5)]
    reader.page.locator("table.bursts tbody tr", has_text="200 µs").click()
    assert who.all_text_contents() == ["2001:db8::1"]
    assert reader.page.locator(".fanin h4").text_content() == "Burst 2"
    assert reader.page.locator("table.bursts tr.chosen button[aria-pressed=true]").count() == 1
    reader.page.locator("table.bursts tbody tr", has_text="30 ms").locator("button").focus()
    reader.page.keyboard.press("Enter")
    assert len(who.all_text_contents()) == 4


def test_the_figure_shows_values_on_hover_and_selects_bursts_on_click(open_page):
    reader = open_page()
    reader.click("[data-do=next]")
    reader.page.evaluate("document.querySelector('.timeline').scrollIntoView({behavior: 'instant'})")
    box = reader.page.locator(".timeline").bounding_box()
    for shift in (0, 3, 6):
        reader.page.mouse.move(box["x"] + box["width"] / 2 + shift, box["y"] + 100)
        reader.page.wait_for_timeout(150)
    readout = reader.page.locator(".readout").text_content()
    assert "largest" in readout and "1 s average" in readout and "2026-11-21 02:34:" in readout
    reader.page.mouse.down()
    reader.page.mouse.up()
    assert reader.page.locator("tr.chosen").count() == 1


@pytest.mark.parametrize("pen", [False, True])
def test_a_drag_of_a_mouse_or_pen_zooms_and_the_read_out_stays_below_the_pointer(open_page, pen):
    reader = open_page()
    page, device = reader.page, reader.context.new_cdp_session(reader.page)
    shown = "document.querySelector('.timeline').layout.xaxis.range"
    page.evaluate("document.querySelector('.timeline').scrollIntoView({behavior: 'instant'})")
    box, before = page.locator(".timeline").bounding_box(), page.evaluate(shown)
    x, y, kind = box["x"] + box["width"] * 0.7, box["y"] + 100, {"pointerType": "pen" if pen else "mouse"}
    drag = [("Moved", 0, 0), ("Pressed", 0, 1), ("Moved", 40, 1), ("Moved", 80, 1), ("Released", 80, 0)]
    drag.append(("Moved", 9, 0))
    for what, at, pressed in drag:
        button = {"button": "left" if what != "Moved" or pressed else "none", "buttons": pressed, "clickCount": 1}
        device.send("Input.dispatchMouseEvent", {"type": f"mouse{what}", "x": x + at, "y": y, **button, **kind})
        page.wait_for_timeout(50)
    page.wait_for_timeout(300)
    assert page.evaluate(shown) != before
    if not pen:
        second = "Number(/:(\\d+[.]\\d+)/.exec(document.querySelector('.readout').textContent)[1])"
        read = page.evaluate(second)
        page.evaluate("document.querySelector('[data-do=out]').click()")
        page.wait_for_function(f"read => Math.abs({second} - read) > 0.1", arg=read, timeout=5000)


def test_a_touch_only_reads_and_chooses(open_page):
    """Plotly took each touch for a double click, or for the drag of a zoom: the zoom and the read-out were gone."""
    reader = open_page(viewport={"width": 800, "height": 900}, has_touch=True)
    page, read = reader.page, "document.querySelector('.readout').textContent"
    shown = "document.querySelector('.timeline').layout.xaxis.range"
    page.evaluate("Plotly.relayout(document.querySelector('.timeline'), {dragmode: 'zoom'})")  # with a mouse, too
    reader.click("[data-do=next]")
    page.evaluate("document.querySelector('.timeline').scrollIntoView({behavior: 'instant'})")
    box, before, chosen = page.locator(".timeline").bounding_box(), page.evaluate(shown), page.locator("tr.chosen")
    other = page.locator("table.bursts tbody tr", has_text="30 ms" if "200 µs" in chosen.text_content() else "200 µs")
    other.evaluate("row => row.click()")
    x, y = box["x"] + box["width"] / 2, box["y"] + 60
    said = []
    for at in (x - 90, x + 90, x + 95, x):
        page.touchscreen.tap(at, y)
        page.wait_for_timeout(50)
        said.append(page.evaluate(read))
    assert all("largest" in text for text in said) and len(set(said)) == 4
    assert "chosen" not in other.get_attribute("class"), "the burst that was touched"
    touch = reader.context.new_cdp_session(page)
    for kind, points in (("Start", [0]), ("Move", [20]), ("Move", [60]), ("End", [])):
        points = [{"x": x + far, "y": y} for far in points]
        touch.send("Input.dispatchTouchEvent", {"type": f"touch{kind}", "touchPoints": points})
    page.wait_for_timeout(300)
    assert page.evaluate(shown) == before and "largest" in page.evaluate(read)


def test_labels_of_the_axis_are_no_part_of_a_burst(open_page):
    reader = open_page()
    reader.click("[data-do=next]")
    reader.page.evaluate("document.querySelector('.timeline').scrollIntoView({behavior: 'instant'})")
    shown, chosen = reader.page.locator("tr.chosen").get_attribute("data-burst"), reader.page.locator("tr.chosen")
    reader.page.locator(f"table.bursts tr[data-burst='{3 - int(shown)}']").evaluate("row => row.click()")
    box = reader.page.locator(".timeline").bounding_box()
    reader.page.mouse.click(box["x"] + box["width"] / 2, box["y"] + box["height"] - 15)
    assert chosen.get_attribute("data-burst") != shown
    reader.page.mouse.click(box["x"] + box["width"] / 2, box["y"] + 100)
    assert chosen.get_attribute("data-burst") == shown


def test_hostile_names_are_text(open_page):
    reader = open_page("hostile")
    reader.page.locator("table.bursts tbody tr", has_text="200 µs").click()
    assert reportlib.HOSTILE in reader.page.locator(".fanin").text_content()
    assert reader.page.locator("img").count() == 0
    assert reader.troubles == [] and len(reader.requests) == 1
    assert reader.page.locator("[data-choose=latency] option").first.text_content().startswith(reportlib.HOSTILE)


def test_the_policy_blocks_what_escaping_would_have_missed(open_page):
    reader = open_page()
    reader.page.evaluate("""() => {
        const script = document.createElement('script'), image = new Image();
        script.textContent = 'window.owned = 1';
        document.body.append(script);
        image.src = 'https://example.invalid/x.png'; document.body.append(image);
    }""")
    reader.page.wait_for_timeout(200)
    assert reader.page.evaluate("window.owned") is None
    assert all("Content Security Policy" in trouble for trouble in reader.troubles) and len(reader.troubles) == 2


@pytest.mark.parametrize("name", ["plain", "hostile"])
def test_a_phone_scrolls_only_vertically(open_page, name):
    reader = open_page(name, viewport={"width": 390, "height": 844}, has_touch=True, is_mobile=True)
    assert reader.page.evaluate("document.documentElement.scrollWidth") == 390
    assert reader.troubles == []
    assert largest_between(reader, SHORT, SHORT + 2) == 100.0
    assert reader.page.locator(".scroll:has(table.bursts)").evaluate(
        "e => e.scrollWidth > e.clientWidth && getComputedStyle(e).backgroundImage.includes('linear-gradient')"
    ), "a shadow where the table goes on"


def test_the_dark_scheme_is_dark_and_paper_is_light(open_page):
    reader = open_page(color_scheme="dark")
    paper = "getComputedStyle(document.body).backgroundColor"
    line = "document.querySelector('.timeline').data.find(t => t.meta === 'second').line.color"
    dark = reader.page.evaluate(line)
    assert reader.page.evaluate(paper) == "rgb(20, 23, 26)"
    reader.page.emulate_media(color_scheme="light")
    reader.page.wait_for_timeout(400)
    assert reader.page.evaluate(line) != dark
    assert reader.page.evaluate(paper) == "rgb(252, 252, 250)"


def test_controls_and_regions_have_names(plain):
    reader = plain
    nameless = reader.page.evaluate("""() => [...document.querySelectorAll('button, select, a, section, aside, [role]')]
        .filter(e => !e.closest('svg') && e.getAttribute('role') !== 'status')
        .filter(e => !(e.textContent.trim() || e.getAttribute('aria-label') || e.labels?.length))
        .map(e => e.outerHTML.slice(0, 80))""")
    assert nameless == []
    assert reader.page.evaluate("[...document.querySelectorAll('header.page, main, footer')].length") == 3
    assert reader.page.evaluate("document.querySelectorAll('h1').length") == 1
    twice = reader.page.evaluate("""() => { const ids = [...document.querySelectorAll('[id]')].map(e => e.id);
        return ids.filter((id, i) => ids.indexOf(id) !== i); }""")
    assert twice == []


def test_probed_paths_and_their_tail_are_drawn(open_page):
    reader = open_page()
    drawn = reader.page.evaluate(
        "() => [...document.querySelectorAll('[data-figure]')].map(place => [place.dataset.figure, place.data.length])"
    )
    assert [name for name, traces in drawn if traces] == ["distribution", "time"]
    x, y = reader.page.evaluate(
        "() => { const trace = document.querySelector('[data-figure=distribution]')._fullData[0];"
        " return [[...trace.x], [...trace.y]]; }"
    )
    slowest = max(20_000 + i % 7 - 3 + 10**7 * (i == 500) for i in range(2000))
    assert x[-1] == slowest and y == sorted(y) and y[-1] > 3
    assert reader.troubles == []


def test_figures_fit_on_paper(open_page):
    reader = open_page(viewport={"width": 1900, "height": 1000})
    reader.check_paper()


def test_a_pause_is_read_as_such_and_a_click_in_it_chooses_nothing(browser, tmp_path):
    """Plotly reports no pointer where it draws nothing: the read-out stayed at the last bin, and the click, too."""
    store = StoreFolder.create(tmp_path / "store")
    reportlib.fill_apart(store, 10 * 10**9)
    reader = Reader(
        browser, f"file://{reportlib.written(store, tmp_path / 'page')}", viewport={"width": 1100, "height": 900}
    )
    reader.page.evaluate("document.querySelector('.timeline').scrollIntoView({behavior: 'instant'})")
    box = reader.page.locator(".timeline").bounding_box()
    margin = reader.page.evaluate("document.querySelector('.timeline').layout.margin")
    left, width = margin["l"], box["width"] - margin["l"] - margin["r"]
    chosen = reader.page.locator("tr.chosen").get_attribute("data-burst")

    def point(seconds):
        reader.page.mouse.move(box["x"] + left + width * seconds / 11, box["y"] + 100)
        reader.page.wait_for_timeout(150)
        return reader.page.locator(".readout").text_content()

    assert "largest" in point(0.1)
    assert point(5.5).endswith("not recorded") and ":05." in point(5.5)
    reader.page.mouse.down()
    reader.page.mouse.up()
    assert reader.page.locator("tr.chosen").get_attribute("data-burst") == chosen
    found = set()
    for begin in (0.101, 10.101):
        point(begin)
        reader.page.mouse.down()
        reader.page.mouse.up()
        found.add(reader.page.locator("tr.chosen").get_attribute("data-burst"))
    assert found == {"1", "2"}
    assert reader.troubles == []
    reader.context.close()
