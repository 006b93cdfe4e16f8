"""The page of the live view: its links, its look, its limits, and hostile names."""

from __future__ import annotations

import time

import pytest
import reportlib
from livepages import growing, open_page, recorded, steps_between, view_range
from livereader import PATIENCE
from livestore import RUN, SECOND, Growing, Server, filled
from reportlib import BIN, SHORT, START
from storelib import write

from mburst.sql import StoreFolder

__all__ = ["growing", "open_page", "recorded"]

pytest.importorskip("uvicorn")

ZERO = START // 86_400 // SECOND * 86_400 * SECOND  # times of the page are relative to the day


def test_the_page_makes_no_request_and_logs_no_error(open_page, recorded):
    reader = open_page(recorded.url)
    for what in ("pause", "in", "out", "left", "right", "previous", "next", "pause"):
        reader.page.click(f"[data-do={what}]")
        reader.page.wait_for_timeout(100)
    reader.page.select_option("#span", "60")
    reader.page.click("#theme")
    reader.page.wait_for_timeout(300)
    assert reader.troubles == []
    assert all(url.startswith((recorded.url, "data:")) for url in reader.requests), reader.requests


@pytest.mark.parametrize(
    "look",
    [{}, {"color_scheme": "dark"}, {"viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True}],
    ids=["light", "dark", "phone"],
)
def test_axe_reports_no_violation(open_page, recorded, look):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright")
    reader = open_page(recorded.url, **look)
    reader.wait("document.querySelectorAll('.ended button').length === 2")
    found = axe.Axe().run(reader.page)
    assert found.violations_count == 0, found.generate_report()
    assert reader.page.evaluate("document.documentElement.scrollWidth") == reader.page.viewport_size["width"]


def test_an_older_recording_beside_a_newer_one(open_page, tmp_path):
    """Its port direction is no longer in memory, so all of its data comes from the store."""
    filled(tmp_path / "store")
    store = Growing(tmp_path / "store", START + 3600 * SECOND)
    store.append([84] * 100)
    server = Server(tmp_path / "store")
    try:
        reader = open_page(server.url)
        assert "eth1" in reader.page.locator("#lane option:checked").text_content()
        old = reader.page.locator("#lane option", has_text="eth0").get_attribute("value")
        reader.page.select_option("#lane", old)
        reader.wait("document.querySelector('.ended button') && view.lane.id.includes('eth0') && view.tape")
        reader.stand(START + (SHORT - 20) * BIN, START + (SHORT + 20) * BIN)
        assert max(steps_between(reader.trace("largest"), *view_range(reader))) == pytest.approx(100.0)
        assert reader.troubles == []
    finally:
        server.stop()
        store.close()


# Whether each name of the overview begins within its figure, and where the name of the chosen lane can be read whole.
NAMES = """() => {
    const left = document.querySelector('.plot.heat').getBoundingClientRect().left;
    const select = document.querySelector('#lane');
    const texts = [...document.querySelectorAll('.heat .ytick text')].map((text) => text.getBoundingClientRect().left);
    const whole = document.querySelector('#lane-name'), free = select.cloneNode(true);
    free.style.cssText = 'position:absolute;width:auto;max-width:none';
    [...free.options].forEach((option) => option.text === select.selectedOptions[0].text || option.remove());
    select.after(free);
    const closed = free.offsetWidth <= select.offsetWidth + 1;
    free.remove();
    return [texts.filter((at) => at >= left).length, texts.length, closed || !whole.hidden && whole.textContent]; }"""


@pytest.mark.parametrize(("host", "shortened"), [("cache-1", 0), ("cache-1." + "far-away." * 9 + "example", 2)])
def test_names_of_lanes_can_be_read_whole(open_page, tmp_path, host, shortened):
    """Each names its host, however much distinguishes it from others of the host."""
    store = StoreFolder.create(tmp_path / "store")
    now = time.time_ns() // SECOND * SECOND - 5 * SECOND
    for number, rest in enumerate(({"link_bps": 10**10}, {"bin_ns": 10 * BIN})):
        run = {"recording_id": f"run-{number}", "host": host}
        write(store, "recordings", {"bin_ns": BIN, **rest, **run, "start_ns": now, "end_ns": now + 4 * SECOND})
        write(store, "bins", {**run, "ts_ns": now})
    server = Server(tmp_path / "store")
    try:
        reader = open_page(server.url, viewport={"width": 1280, "height": 900})
        reader.page.select_option("#by", "interface")
        reader.wait("document.querySelectorAll('.heat .ytick text').length === 2")
        name = reader.page.locator("#lane option:checked").text_content()
        assert name.startswith(f"{host} eth0 in, bins of ")
        assert reader.page.evaluate(NAMES) in ([2, 2, True], [2, 2, name])
        ticks = reader.page.locator(".heat .ytick text").all_text_contents()
        assert all(tick[:7] == "cache-1" and tick[-4:] == "Gb/s" for tick in ticks) and len({*ticks}) == 2
        assert sum("…" in tick for tick in ticks) == shortened
        reader.page.set_viewport_size({"width": 390, "height": 844})
        reader.wait("document.querySelectorAll('.heat .ytick text').length === 0")
        assert reader.page.evaluate(NAMES) == [0, 0, name]
        assert reader.page.evaluate("document.documentElement.scrollWidth") == 390
        assert reader.troubles == []
    finally:
        server.stop()


def test_a_page_that_cannot_draw_reports_it(browser, recorded):
    context = browser.new_context()
    page = context.new_page()
    page.add_init_script("window.Worker = class extends Worker { constructor() { super('nowhere.js'); } }")
    page.goto(recorded.url)
    page.wait_for_selector("#trouble:not([hidden])", timeout=PATIENCE)
    assert page.text_content("#trouble") == "Nothing can be drawn: the script that draws cannot be loaded"
    context.close()


def test_the_dark_scheme_can_be_chosen_and_is_kept(open_page, recorded):
    reader = open_page(recorded.url)
    paper = "getComputedStyle(document.body).backgroundColor"
    line = "view.timeline.figure.data.find(t => t.meta === 'second').line.color"
    light = reader.page.evaluate(line)
    reader.page.click("#theme")
    reader.wait(f"{line} !== '{light}'")
    assert reader.page.evaluate(paper) == "rgb(20, 23, 26)"
    reader.page.reload()
    reader.page.wait_for_selector("html[data-ready]", timeout=PATIENCE)
    assert reader.page.evaluate(paper) == "rgb(20, 23, 26)"


def test_hostile_names_are_text(open_page, tmp_path):
    name = reportlib.HOSTILE
    store = Growing(tmp_path / "store", time.time_ns() // SECOND * SECOND, host=name, rack=name)
    server = Server(tmp_path / "store")
    try:
        store.burst(3, (name,))
        reader = open_page(server.url)
        reader.wait("document.querySelector('.ended button')")
        assert name in reader.page.locator(".fanin").text_content()
        assert reader.page.locator("img").count() == 0 and reader.troubles == []
        assert RUN not in reader.page.locator("#lane").text_content()
    finally:
        server.stop()
        store.close()


@pytest.mark.parametrize(("width", "height"), [(1300, 800), (2560, 1440)])
def test_the_first_screen_has_the_answer_three_figures_and_the_picture(open_page, recorded, width, height):
    reader = open_page(recorded.url, viewport={"width": width, "height": height})
    reader.stand(START, START + 20 * SECOND)
    reader.wait("document.querySelector('#bursts-in-view').textContent === '2'")
    for place in ("#answer", ".tiles", ".timeline", ".lines"):
        box = reader.page.locator(place).first.bounding_box()
        assert box["y"] + box["height"] <= height, place
    answer = reader.page.locator("#answer").text_content()
    assert answer.startswith(
        "20 s in view: 2 bursts of up to 30 ms; the fullest bin of 100 µs reads 100 %, the fullest second "
    )
    assert reader.page.locator(".tile:visible").count() == 3


def test_a_notice_of_a_moment_ends_when_a_moment_is_fetched(open_page, recorded):
    reader = open_page(recorded.url)
    reader.page.route("**/moment?*", lambda route: route.abort())
    reader.page.click("[data-do=pause]")
    reader.wait("document.querySelector('#trouble').textContent.startsWith('This moment cannot be fetched')")
    reader.page.unroute("**/moment?*")
    reader.page.click("[data-do=in]")
    reader.wait("document.querySelector('#trouble').hidden")
    reader.page.evaluate("view.say('pushed')")
    reader.page.click("[data-do=in]")
    reader.page.wait_for_timeout(400)
    assert reader.page.text_content("#trouble") == "pushed", "another notice stays"


def test_cells_of_the_heatmap_are_chosen_by_keys(open_page, recorded):
    reader = open_page(recorded.url)
    reader.page.locator(".heat").focus()
    reader.wait("view.heat.shown && view.heat.shown.seconds > 0")
    for key in ("ArrowLeft", "ArrowLeft", "ArrowUp"):
        reader.page.keyboard.press(key)
    chosen, first, count = reader.page.evaluate("[view.heat.chosen, view.heat.shown.first, view.heat.shown.seconds]")
    assert chosen == [first + count - 2, 1]
    assert reader.page.locator(".cell").is_visible()
    assert "fullest bin" in reader.page.text_content(".cell-read") or "not recorded" in reader.page.text_content(
        ".cell-read"
    )
    assert reader.page.evaluate("view.range") is None, "the arrows do not move the figure"
    for key in ("Alt+ArrowLeft", "Control+ArrowUp"):  # the browser's own, such as its way back
        reader.page.keyboard.press(key)
    assert reader.page.evaluate("view.heat.chosen") == chosen
    reader.page.keyboard.press("Enter")
    reader.wait("view.range !== null")
    a, b = (ns / SECOND for ns in reader.page.evaluate("view.range"))
    assert a < chosen[0] + 0.02 < b and b - a < 1


def test_the_read_out_of_the_second_that_is_not_over_has_no_average(open_page, growing):
    store, server = growing
    store.append([84] * 25_500)
    reader = open_page(server.url)
    reader.wait(
        "view.tape && view.tape.edge % 1e9 > 3e8 && view.tape.edge % 1e9 < 9e8 && view.tape.coverage.end.length"
    )
    read = "ns => { view.timeline.readOut(ns); return document.querySelector('.readout').textContent; }"
    reader.wait("view.timeline.lane.edge > 1e9")
    last = reader.page.evaluate("[view.timeline.lane.edge, Math.floor(view.timeline.lane.edge / 1e9) * 1e9]")
    assert "1 s average" not in reader.page.evaluate(read, (last[0] + last[1]) / 2)
    assert "largest" in reader.page.evaluate(read, (last[0] + last[1]) / 2)
    assert "1 s average" in reader.page.evaluate(read, last[1] - 10**8)
    assert reader.page.evaluate(read, last[0] + 10**8).endswith("not recorded")


def test_losses_of_a_recorder_that_did_not_end_are_at_least_these(open_page, recorded):
    page = open_page(recorded.url).page
    rest = {
        "scope": "",
        "isPort": False,
        "losing": 0,
        "stamps": [],
        "clock": "",
        "trouble": [],
        "notes": [],
        "recording": False,
    }
    for dropped, whole, more, said in (
        (7, True, {}, "7 packets"),
        (7, False, {"scope": "in both directions"}, "at least 7 packets in both directions"),
        (0, False, {}, "none in the last 5 min"),
        (0, False, {"losing": 2 * SECOND}, "some in 2 s of the last 5 min"),
        (0, True, {"isPort": True}, "none in the last 5 min"),
    ):
        page.evaluate(
            "status => view.tellStatus(status)", {**rest, "dropped": dropped, "droppedIsWhole": whole, **more}
        )
        assert page.text_content("#dropped") == said
