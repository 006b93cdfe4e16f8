"""The live view in a browser: Debian's Chromium, and a store that grows meanwhile."""

from __future__ import annotations

import os
import time

import numpy as np
import pytest
import reportlib
from livepages import growing, open_page, recorded, seconds, steps_between, view_range
from livereader import PATIENCE, day_of, iso
from livestore import SECOND, Growing, Server
from reportlib import BIN, FULL, PROBE, SHORT, START

from mburst.dashboards.common.palette import LIGHT
from mburst.quality import Quality
from mburst.sql import StoreFolder

__all__ = ["growing", "open_page", "recorded"]

pytest.importorskip("uvicorn")

ZERO = START // 86_400 // SECOND * 86_400 * SECOND  # times of the page are relative to the day
# Whether the canvas shows the largest bins (blue) at a share of line rate: the uppermost panel, from zero.
INK = """share => {
    const { lines: { canvas }, figure: { layout } } = view.timeline, { height, margin: { l, r, t, b }, yaxis } = layout;
    const copy = new OffscreenCanvas(canvas.width, canvas.height).getContext('2d');
    copy.drawImage(canvas, 0, 0);
    const [low, high] = yaxis.domain, up = low + share / yaxis.range[1] * (high - low);
    const { data } = copy.getImageData(l, t + (1 - up) * (height - t - b), canvas.width - l - r, 1);
    for (let i = 0; i < data.length; i += 4) if (data[i + 3] > 60 && data[i + 2] > data[i] + 20) return true;
    return false; }"""
CELL_NS = 10_000_000  # width of a cell of the heatmap


def test_the_drawn_data_is_that_of_the_store(open_page, recorded):
    reader = open_page(recorded.url)
    begin = START + (SHORT - 20) * BIN
    reader.stand(begin, begin + 40 * BIN)
    x, y = reader.trace("largest")
    wire = reportlib.wire()
    drawn = {round((t - seconds(START)) * 1e9 / BIN): v for t, v in zip(x, y, strict=True) if v}
    assert {SHORT, SHORT + 1} <= drawn.keys()
    for number, value in drawn.items():
        assert value == pytest.approx(wire[number] * 8e9 / BIN / 1e9 * 100, rel=1e-9)
    assert "every bin of 100 µs by itself" in reader.page.locator(".step").text_content()


def test_a_burst_of_200_us_is_visible_at_every_zoom_beside_an_idle_second(open_page, recorded):
    reader = open_page(recorded.url)
    middle = START + (SHORT + 1) * BIN
    for span in np.geomspace(20e9, 4e5, 8):
        reader.stand(int(middle - span / 2), int(middle + span / 2))
        found = steps_between(reader.trace("largest"), seconds(START + SHORT * BIN), seconds(START + (SHORT + 2) * BIN))
        assert max(found) == pytest.approx(100.0), span
        assert reader.page.evaluate(INK, 75), span
        marks, _ = reader.trace("marks")
        assert marks and min(t for t in marks if t is not None) <= seconds(START + (SHORT + 2) * BIN)
    assert max(v for v in reader.trace("second")[1] if v is not None) < 10
    assert reader.page.locator("#fullest").text_content() == "100 %"
    assert float(reader.page.locator("#second").text_content().removesuffix(" %")) < 10


def test_a_resized_page_is_drawn_again(open_page, recorded):
    reader = open_page(recorded.url)
    begin = START + SHORT * BIN
    reader.stand(begin - 10 * BIN, begin + 10 * BIN)
    for size in ({"width": 700, "height": 900}, {"width": 1700, "height": 700}):
        reader.page.set_viewport_size(size)
        reader.wait(
            "view.steps === view.timeline.steps() && "
            "view.timeline.lines.canvas.width === view.timeline.place.clientWidth && !view.timeline.drawing"
        )
        assert reader.page.evaluate(INK, 75), size
        assert reader.page.evaluate("view.timeline.lines.canvas.height === view.timeline.place.clientHeight")
        reader.wait("""() => {
            const [cells, axes] = ['.cells', '.heat .nsewdrag'].map((place) => one(place).getBoundingClientRect());
            return ['left', 'top', 'width', 'height'].every((side) => Math.abs(cells[side] - axes[side]) <= 1); }""")


def test_a_page_without_a_width_keeps_its_drawing(open_page, recorded):
    reader = open_page(recorded.url)
    begin = START + SHORT * BIN
    reader.stand(begin - 10 * BIN, begin + 10 * BIN)
    reader.page.evaluate(
        "async () => { const body = document.querySelector('main'); body.style.display = 'none'; "
        "await view.draw(); await view.heat.refresh(); body.style.display = ''; }"
    )
    assert reader.page.evaluate(INK, 75)
    assert not reader.page.locator("#trouble").is_visible()
    assert reader.troubles == []


def test_probes_and_queues_are_on_the_same_axis(open_page, recorded):
    reader = open_page(recorded.url)
    reader.stand(START + 4 * SECOND, START + 6 * SECOND)
    x, y = reader.trace("latency")
    slow = max(range(len(y)), key=lambda i: y[i])
    assert y[slow] == pytest.approx(10.02, abs=0.001)
    assert x[slow] == pytest.approx(seconds(START + 5 * SECOND + 3), abs=1e-6)
    assert max(v for v in reader.trace("queue")[1] if v is not None) == pytest.approx(3.0)
    assert reader.page.locator("#measure").text_content() == "latency: round trip, stamps sw"
    if folder := os.environ.get("MBURST_SHOTS"):
        reader.page.screenshot(path=f"{folder}/live-measure.png", full_page=True)


def test_bursts_are_listed_with_their_senders(open_page, recorded):
    reader = open_page(recorded.url)
    buttons = reader.page.locator(".ended button")
    reader.wait("document.querySelectorAll('.ended button').length === 2")
    assert "200 µs" in buttons.nth(0).text_content() and "30 ms" in buttons.nth(1).text_content()
    buttons.nth(1).click()
    assert reader.page.locator(".fanin .who").all_text_contents() == [f"10.0.0.{i}" for i in range(1, 5)]
    reader.page.locator(".fanin button").click()
    reader.wait("view.still !== null && view.timeline.lane.base === view.still.base && !view.timeline.drawing")
    assert max(steps_between(reader.trace("largest"), *view_range(reader))) == pytest.approx(100.0)


def test_new_bins_and_bursts_appear_by_themselves(open_page, growing):
    store, server = growing
    reader = open_page(server.url)
    begin = store.burst(2, ("10.1.0.1", "10.1.0.2"))
    reader.wait("edge => view.tape.edge >= edge && !view.timeline.drawing", store.at - day_of(store.at))
    reader.wait("document.querySelectorAll('.ended button').length === 1")
    buttons = reader.page.locator(".ended button").text_content()
    assert "200 µs" in buttons and "10.1.0.1" in buttons
    found = steps_between(reader.trace("largest"), seconds(begin), seconds(begin + 2 * BIN))
    assert max(found) == pytest.approx(100.0)
    assert reader.page.locator("#state").text_content() == "Recording"
    assert reader.page.locator("#stamps").text_content() == "kernel"
    assert reader.troubles == []


DOT = """name => {
    const probe = document.createElement("i");
    probe.style.color = `var(--${name})`;
    document.body.append(probe);
    const colour = getComputedStyle(probe).color;
    probe.remove();
    return getComputedStyle(document.querySelector("#state"), "::before").backgroundColor === colour; }"""


def test_no_number_is_shown_before_the_first_data(browser, growing):
    _, server = growing
    context = browser.new_context()
    page = context.new_page()
    page.route_web_socket("**/live", lambda socket: None)  # which is open, and gets nothing
    page.goto(server.url)
    until = time.monotonic() + PATIENCE / 1000
    while not page.evaluate("view.lane"):
        assert time.monotonic() < until
        page.wait_for_timeout(50)
    assert page.evaluate("view.tape") is None
    assert page.locator("#state").text_content() == "Connecting"
    assert page.evaluate(DOT, "muted") and not page.evaluate(DOT, "good")
    assert page.locator(".bursts .none").is_hidden()
    context.close()


def test_an_empty_list_of_bursts_states_why(open_page, growing, tmp_path):
    _, server = growing
    reader = open_page(server.url)
    assert reader.page.evaluate(DOT, "good")
    none = reader.page.locator(".bursts .none")
    assert none.is_visible() and none.text_content() == "None since this page was opened or in the time shown."
    store = StoreFolder.create(tmp_path / "speedless")
    reportlib.fill(store, link_bps=None)
    speedless = Server(store.path)
    try:
        none = open_page(speedless.url).page.locator(".bursts .none")
        assert none.text_content() == "The link's speed is not known, so no burst can be detected."
    finally:
        speedless.stop()


def test_a_single_probe_is_a_point(open_page, recorded):
    """With a single probe, a line of latencies has no length: a point is drawn at the time of its answer."""
    reader = open_page(recorded.url)
    sent = START + 700 * PROBE
    reader.stand(sent - 3 * 10**6, sent + 3 * 10**6)
    assert len(reader.trace("latency")[0]) == 1
    [red, green, blue] = bytes.fromhex(LIGHT["latency"][1:])
    inked = """([red, green, blue]) => {
        const { lines: { canvas } } = view.timeline;
        const copy = new OffscreenCanvas(canvas.width, canvas.height).getContext('2d');
        copy.drawImage(canvas, 0, 0);
        const { data } = copy.getImageData(0, 0, canvas.width, canvas.height), found = new Set();
        for (let i = 0; i < data.length; i += 4) {
            const off = Math.abs(data[i] - red) + Math.abs(data[i + 1] - green) + Math.abs(data[i + 2] - blue);
            if (data[i + 3] > 200 && off < 12) found.add((i >> 2) % canvas.width);
        }
        return [...found]; }"""
    middle = reader.page.evaluate(
        "() => { const { place, figure: { layout: { margin: { l, r } } } } = view.timeline;"
        " return (place.clientWidth + l - r) / 2; }"
    )
    columns = reader.page.evaluate(inked, [red, green, blue])
    assert columns and all(abs(column - middle) < 4 for column in columns)


def test_a_page_opened_before_the_recording_begins_with_it(browser, tmp_path):
    server = Server(StoreFolder.create(tmp_path / "store").path)
    context = browser.new_context()
    try:
        page = context.new_page()
        page.goto(server.url)
        page.wait_for_selector("#trouble:not([hidden])", timeout=PATIENCE)
        store = Growing(tmp_path / "store", time.time_ns() // SECOND * SECOND)
        store.burst()
        page.wait_for_selector("html[data-ready]", timeout=PATIENCE)
        assert page.locator("#trouble").is_hidden()
        store.close()
    finally:
        context.close()
        server.stop()


def test_losses_are_visible_at_once(open_page, growing):
    store, server = growing
    reader = open_page(server.url)
    assert "none" in reader.page.locator("#dropped").text_content()
    store.append([84] * 5, quality=2 | 32)
    reader.wait("document.querySelector('#dropped').classList.contains('bad')")
    assert "500 µs" in reader.page.locator("#dropped").text_content()


def test_missing_samples_of_a_port_are_shown(open_page, tmp_path):
    store = Growing(tmp_path / "store", time.time_ns() // SECOND * SECOND, "tor1", backend="otlp")
    store.append([84] * 100)
    server = Server(tmp_path / "store")
    try:
        reader = open_page(server.url)
        assert reader.page.locator("#loss-word").text_content() == "samples missing"
        assert reader.page.locator("#lost-word").text_content() == "Samples missing"
        store.append([FULL] * 30, quality=Quality.DROPS | Quality.GAP)
        store.append([84] * 5000)
        reader.wait("document.querySelector('#dropped').classList.contains('bad')")
        assert reader.page.locator("#dropped").text_content() == "some in 3 ms of the last 5 min"
        reader.page.wait_for_selector("text=samples missing in it", timeout=PATIENCE)
    finally:
        server.stop()
        store.close()


def test_the_page_survives_a_restart_of_the_server(open_page, growing):
    store, server = growing
    reader = open_page(server.url)
    server.stop()
    reader.wait("document.documentElement.dataset.connected === 'false'")
    begin = store.burst()
    again = Server(store.store.path, port=server.port)
    try:
        reader.wait(
            "edge => view.tape.edge >= edge && document.documentElement.dataset.connected === 'true'",
            store.at - day_of(store.at),
        )
        reader.wait(
            "([a, b]) => { const t = view.timeline.found.largest; "
            "return t.y.some((v, i) => v > 99 && t.x[i] < b && (t.x[i + 1] ?? b) > a); }",
            [seconds(begin), seconds(begin + 2 * BIN)],
        )
        assert all("WebSocket" in trouble for trouble in reader.troubles)  # the browser's message for the gap
    finally:
        again.stop()


def test_no_data_is_lost_during_a_pause(open_page, growing):
    store, server = growing
    reader = open_page(server.url)
    reader.page.keyboard.press("Space")
    reader.wait("view.range !== null")
    before = view_range(reader)
    begin = store.burst()
    reader.wait("edge => view.tape.edge >= edge", store.at - day_of(store.at))
    assert view_range(reader) == before and "from=" in reader.page.url
    reader.page.keyboard.press("End")
    reader.wait("view.range === null && !view.timeline.drawing && document.querySelector('.ended button')")
    reader.stand(begin - 5 * BIN, begin + 7 * BIN)
    x, y = reader.trace("largest")
    drawn = {round(t * 1e9 / BIN): v for t, v in zip(x, y, strict=True) if v}
    for at, value in drawn.items():
        assert value == pytest.approx(store.wire[day_of(begin) + at * BIN] / FULL * 100, rel=1e-9)
    assert len(drawn) >= 12


def test_a_link_opens_the_page_at_its_time(open_page, recorded):
    begin, end = START + 5 * SECOND, START + 5 * SECOND + 40_000_000
    lane = "r1%2Fcache-1%2Feth0%2Fin%2F100000%2F1000000000"
    reader = open_page(f"{recorded.url}#lane={lane}&from={iso(begin)}&to={iso(end)}")
    reader.wait("view.still !== null")
    assert view_range(reader) == pytest.approx([seconds(begin), seconds(end)], abs=1e-9)
    reader.page.keyboard.press("ArrowRight")
    reader.wait("a => view.range[0] > a", begin - ZERO)
    assert f"from={iso(begin + 20_000_000)}".replace(":", "%3A") in reader.page.url


def test_the_keys_zoom_to_single_bins(open_page, recorded):
    reader = open_page(recorded.url)
    for _ in range(30):
        reader.page.keyboard.press("+")
    reader.wait("view.range !== null && view.range[1] - view.range[0] === 200000")
    reader.page.keyboard.press("n")
    reader.page.keyboard.press("p")
    assert reader.troubles == []


# The cells of the heatmap that are drawn in the colour of line rate: [seconds since the first, rows from below].
HOT = """() => {
    const { canvas, pen, words } = view.heat, { width, height } = canvas, found = [];
    const pixels = new Uint32Array(pen.getImageData(0, 0, width, height).data.buffer);
    pixels.forEach((word, i) => word === words[255] && found.push([i % width, height - 1 - Math.floor(i / width)]));
    return found; }"""


def test_the_heatmap_has_the_fullest_bins_at_their_time(open_page, recorded):
    reader = open_page(recorded.url)
    reader.wait("view.heat.shown?.rows.length === 100")
    first = reader.page.evaluate("view.heat.shown.first")
    hot = [(first + second, row) for second, row in reader.page.evaluate(HOT)]
    starts = [START + reportlib.LONG * BIN + ms * 10**7 for ms in range(3)] + [START + SHORT * BIN]
    assert sorted(hot) == sorted((seconds(at) // 1, at % SECOND // 10**7) for at in starts)
    reader.page.select_option("#by", "interface")
    reader.wait("view.heat.shown.rows.length === 1")
    assert len(reader.page.evaluate(HOT)) == len({second for second, _ in hot})


# What the heatmap shows at some times: "nothing", "idle" or "busy".
CELLS = """times => {
    const { canvas: { width, height }, canvas, words, shown: { first, rows } } = view.heat;
    const copy = new OffscreenCanvas(width, height).getContext('2d');
    copy.drawImage(canvas, 0, 0);
    const pixels = new Uint32Array(copy.getImageData(0, 0, width, height).data.buffer);
    return times.map((ns) => {
        const second = Math.floor(ns / 1e9), row = Math.floor((ns - second * 1e9) * rows.length / 1e9);
        const word = pixels[(height - 1 - row) * width + second - first];
        return word === 0 ? 'nothing' : word === words[0] ? 'idle' : 'busy'; }); }"""


def test_time_that_was_not_recorded_is_not_drawn_as_idle(open_page, growing):
    store, server = growing
    reader = open_page(server.url)
    begin = store.at - 100 * BIN - day_of(store.at)
    store.append([0] * 19_900 + [FULL] + [0] * 15_000)
    store.tick()
    reader.wait(f"at => view.heat.shown && ({CELLS})([at])[0] === 'idle'", begin + 3 * SECOND)
    store.rest(10_000)
    store.append([0] * 4_000 + [FULL])
    end = store.at - day_of(store.at)
    wanted = {
        -CELL_NS: "nothing",
        0: "busy",
        CELL_NS: "idle",
        2 * SECOND - CELL_NS: "idle",
        2 * SECOND: "busy",
        2 * SECOND + CELL_NS: "nothing",
        3 * SECOND: "nothing",
        4 * SECOND: "nothing",
        4 * SECOND + SECOND // 2: "idle",
        end - begin - BIN: "busy",
        end - begin + CELL_NS: "nothing",
    }
    for _ in ("as it came", "all at once"):
        reader.wait(f"end => view.heat.shown && ({CELLS})([end - {BIN}])[0] === 'busy'", end)
        assert reader.page.evaluate(CELLS, [begin + at for at in wanted]) == list(wanted.values())
        reader.page.reload()
        reader.page.wait_for_selector("html[data-ready]", timeout=PATIENCE)
    reader.page.select_option("#by", "interface")
    reader.wait("view.heat.shown?.rows.length === 1")
    assert reader.page.evaluate(CELLS, [begin + second * SECOND for second in range(-1, 5)]) == [
        "nothing",
        "busy",
        "idle",
        "busy",
        "nothing",
        "busy",
    ]
    assert reader.troubles == []


def test_a_click_into_the_heatmap_shows_that_time(open_page, recorded):
    reader = open_page(recorded.url)
    reader.wait("view.heat.shown?.rows.length === 100")
    (column, row), *_ = reader.page.evaluate(HOT)
    reader.page.locator(".cells").scroll_into_view_if_needed()
    box = reader.page.locator(".cells").bounding_box()
    cell = box["width"] / reader.page.evaluate("view.heat.shown.seconds"), box["height"] / 100
    reader.page.mouse.click(box["x"] + (column + 0.5) * cell[0], box["y"] + (99 - row + 0.5) * cell[1])
    at = (reader.page.evaluate("view.heat.shown.first") + column) * SECOND + row * 10**7
    reader.wait("at => view.range && view.range[0] <= at && at < view.range[1]", at)
    assert reader.page.evaluate(INK, 75)
