"""The page of an investigation in a browser: the drawn data is that of the JSON."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from browserlib import Reader
from latency_cases import Case, Setting, build
from latency_store import LANE, ORIGIN, store_case
from storelib import write

from mburst.analysis.answers.investigate import InvestigationResult, investigate
from mburst.analysis.bursts.find import BurstDefinition
from mburst.analysis.cause.read import Question
from mburst.dashboards.investigation.facts import facts
from mburst.dashboards.investigation.page import write_page
from mburst.sql import StoreFolder

HOSTILE = '<a href="https://evil.example/">x</a><img src=x onerror=alert(1)>`</script>'
PLOT = """title => {
    const places = [...document.querySelectorAll('[data-figure]')];
    const place = places.find(p => p.getAttribute('aria-label').includes(title));
    return place && place.data.map(({name, x, y, labels, parents, values}) => ({name, x, y, labels, parents, values}));
}"""


def add_requests(store: StoreFolder, case: Case) -> None:
    """Before each burst, the host sends requests to its eight senders."""
    rows = [
        {**LANE, "recording_id": "o", "direction": "out", "source": "10.9.9.9", "ts_ns": ORIGIN + int(begin) - 10**6,
         "flows": 8,
         "first_ns": ORIGIN + int(begin) - 10**6, "last_ns": ORIGIN + int(begin) - 9 * 10**5, "destination_port": 11211}
        for begin in case.scene.bursts[0][0]
    ]  # fmt: skip
    write(store, "recordings", {**LANE, "recording_id": "o", "direction": "out", "bin_ns": 100_000})
    write(store, "bins", {**LANE, "recording_id": "o", "direction": "out", "ts_ns": ORIGIN, "wire_bytes": 84})
    write(store, "sources", *rows)


def add_windows(store: StoreFolder, case: Case) -> None:
    """Queue windows of 10 ms; in bursts, as deep as the bytes that are left in the queue after their arrival."""
    starts, ends = case.scene.bursts[0]
    window = np.arange(int(case.setting.seconds * 100)) * 10**7
    came = starts + (ends - starts) / case.setting.overload
    left_ns = [((ends - np.maximum(came, at)) * (starts < at + 1e7)).max(initial=0.0) for at in window]
    write(store, "queues", *({"window_start_ns": ORIGIN + int(at), "ts_ns": ORIGIN + int(at) + 10**7, "port": "eth0",
                              "max_bytes": int(left * case.setting.link_bps / 8e9), "dropped_packets": 0}
                             for at, left in zip(window, left_ns, strict=True)))  # fmt: skip


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[InvestigationResult, str]]:
    """Investigations and their pages by name: `bursts`; `hostile`, with names from an attacker; `empty`, of a recording
    without probes."""
    folder, pages = tmp_path_factory.mktemp("investigations"), {}
    case = build("incast", 4, Setting(seconds=8))
    for name in ("bursts", "hostile", "empty"):
        seen = case
        if name == "hostile":
            seen = replace(case, scene=replace(case.scene, probes=replace(case.scene.probes, src=HOSTILE)))
        store = store_case(folder / name, seen)
        if name == "empty":
            store = StoreFolder.create(folder / "nothing")
            write(store, "recordings", LANE)
            write(store, "bins", {**LANE, "ts_ns": ORIGIN, "wire_bytes": 84})
        add_requests(store, case)
        add_windows(store, case)
        answer = investigate(store.connect(), Question(BurstDefinition()))
        write_page(answer, folder / f"{name}.html")
        pages[name] = (answer, str(folder / f"{name}.html"))
    return pages


@pytest.fixture
def open_page(browser, made):
    opened = []

    def opener(name="bursts", **context):
        opened.append(Reader(browser, f"file://{made[name][1]}", **context))
        return opened[-1]

    yield opener
    for reader in opened:
        reader.context.close()


@pytest.fixture(scope="module")
def shown(browser, made):
    """The page and the JSON of the same answer, for tests that do not change the page."""
    answer, path = made["bursts"]
    reader = Reader(browser, f"file://{path}")
    yield reader, facts(answer)
    reader.context.close()


def plot(reader, title):
    """Returns the traces of a figure by name."""
    traces = reader.page.evaluate(PLOT, title)
    assert traces, title
    return {trace["name"] or k: trace for k, trace in enumerate(traces)}


@pytest.mark.parametrize("name", ["bursts", "hostile", "empty"])
def test_the_page_makes_no_request_and_logs_no_error(open_page, made, name):
    reader = open_page(name)
    assert reader.requests == [f"file://{made[name][1]}"]
    assert reader.troubles == []
    assert reader.page.locator("#trouble").is_hidden()
    assert reader.page.locator("img").count() == 0


def test_the_page_begins_with_the_verdict(shown):
    reader, payload = shown
    assert payload["cause"] == "bursts" == reader.page.locator(".cause").text_content()
    said = [reader.page.locator(place).text_content().replace("\xa0", " ") for place in (".lead", ".finding")]
    assert " ".join(said) == payload["summary"].replace("`", "")
    questions = reader.page.locator("main section > h2").all_text_contents()
    assert questions[0] == "Is there a tail?" and questions[-1] == "What could not be assessed?"
    assert [q.split("?")[0] for q in questions[2:7]] == [
        "Do bursts explain it, and how much of it", "Which senders", "What does the switch's buffer show",
        "Do the sources agree", "What would help"]  # fmt: skip


@pytest.mark.parametrize("width", [390, 1300])
def test_the_table_of_agreeing_sources_fits_the_screen(open_page, width):
    reader = open_page(viewport={"width": width, "height": 900})
    question = reader.page.locator("h2", has_text="Do the sources agree")
    table = reader.page.locator("section", has=question).locator(".scroll")
    assert table.locator("tbody tr").count() >= 1
    assert table.evaluate("box => box.scrollWidth <= box.clientWidth")
    assert reader.page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_the_evidence_card_draws_the_shares(shown):
    reader, payload = shown
    [bars] = plot(reader, "Where the late probes' time went").values()
    shares = {name: 100 * share["value"] for name, share in payload["evidence"]["shares"].items()}
    assert dict(zip(bars["y"], bars["x"], strict=True)) == pytest.approx(shares)


def test_the_distribution_ends_at_the_slowest_probe(shown):
    reader, payload = shown
    [curve] = plot(reader, "How many probes").values()
    assert max(curve["x"]) == pytest.approx(payload["tail"]["max_ns"] / 1e6, rel=1e-4)
    assert curve["y"] == sorted(curve["y"], reverse=True) and max(curve["y"]) <= 100
    later = np.interp(payload["tail"]["p99_ns"] / 1e6, curve["x"], curve["y"])
    assert later == pytest.approx(1, abs=0.15)


def test_utilization_and_latency_share_an_axis(shown):
    reader, _ = shown
    traces = plot(reader, "Latency of each probe over utilization")
    rate, latency = traces["utilization, %"], traces["latency, ms"]
    assert max(rate["y"]) == pytest.approx(100, abs=4) and max(traces["its 1 s average, %"]["y"]) < 40
    slow = [x for x, y in zip(latency["x"], latency["y"], strict=True) if y > 5]
    under = np.asarray(rate["y"], float)[np.clip(np.searchsorted(rate["x"], slow, side="right") - 1, 0, None)]
    assert len(slow) > 20 and np.mean(under > 90) > 0.9


def test_bursts_are_laid_over_each_other(shown):
    reader, payload = shown
    traces = plot(reader, "laid over each other by onset")
    x = np.array(traces["utilization, % (median)"]["x"])
    for name, before, after in (
        ("utilization, % (median)", (0, 30), (90, 104)),
        ("latency, ms (median)", (0, 0.5), (1, 40)),
        ("senders that have begun (mean)", (0, 0), (7, 8)),
        ("switch queue at line rate, ms (median)", (0, 0.1), (4, 25)),
    ):
        y = np.array([np.nan if v is None else v for v in traces[name]["y"]])
        assert before[0] <= np.nanmedian(y[x < -2]) <= before[1], name
        assert after[0] <= np.nanmedian(y[(x > 3) & (x < 10)]) <= after[1], name
    assert f" of {payload['bursts']['count']:,}, laid over" in reader.page.content()


def test_the_lag_scan_peaks_at_the_recorded_lag(shown):
    reader, payload = shown
    [scan] = plot(reader, "Lag scan").values()
    peak = scan["x"][int(np.argmax(scan["y"]))]
    assert abs(peak) <= payload["evidence"]["lag"]["resolution_ns"] / 1e6
    assert max(scan["y"]) == pytest.approx(100 * payload["evidence"]["lag"]["fit"], rel=0.02)


def test_the_tree_has_every_sender_of_the_group(shown):
    reader, payload = shown
    [tree] = plot(reader, "Fan-in").values()
    group = payload["fan_in"][0]
    parents = {label.strip(): parent for label, parent in zip(tree["labels"], tree["parents"], strict=True)}
    assert len(group["senders"]) == 8 and all(parents[sender] == group["group"] for sender in group["senders"])
    assert parents[group["group"]] == "h eth0 in" and parents["h eth0 in"] == ""
    assert sum(tree["values"]) == pytest.approx(sum(g["share"] for g in payload["fan_in"][:8]), abs=1e-6)
    whose = reader.page.locator("section", has=reader.page.locator("h2", has_text="Which senders")).text_content()
    assert group["trigger"]["port"] == 11211 and "8 requests to port 11211" in whose


def test_the_bars_are_the_predictions(shown):
    reader, payload = shown
    bars = plot(reader, "Predicted tail")
    wanted = [payload["what_if"]["recorded"], payload["what_if"]["modelled"], *payload["what_if"]["changes"]]
    for name, key in (("p99, ms", "p99_ns"), ("p99.9, ms", "p999_ns")):
        for drawn, change in zip(bars[name]["x"], wanted, strict=True):
            assert drawn is None if change.get("unsure") else drawn == pytest.approx(change[key] / 1e6, rel=1e-3)
    spans = bars.get("p99 not predicted: between, ms", {"x": [None] * len(wanted)})
    for length, change in zip(spans["x"], wanted, strict=True):
        assert (length is not None) is bool(change.get("unsure"))
        if length is not None:
            assert length == pytest.approx((change["p99_high_ns"] - change["p99_low_ns"]) / 1e6, rel=1e-3)
    drawn = [name.replace("<br>", " ") for name in bars["p99, ms"]["y"]]
    assert drawn == ["as measured", "as modelled", *(change["change"] for change in payload["what_if"]["changes"])]


@pytest.mark.parametrize("width", [1280, 700])
def test_names_of_changes_do_not_overlap(open_page, width):
    """They are further apart than their line height, so that no two read as one."""
    reader = open_page(viewport={"width": width, "height": 800})
    boxes = reader.page.evaluate("""() => {
        const places = [...document.querySelectorAll("[data-figure]")];
        const place = places.find(p => p.getAttribute("aria-label").includes("Predicted tail"));
        return [...place.querySelectorAll(".ytick text")].map(e => e.getBoundingClientRect())
            .map(box => [box.top, box.bottom]).sort((a, b) => a[0] - b[0]);
    }""")
    assert len(boxes) >= 7
    assert min(after[0] - before[1] for before, after in pairwise(boxes)) >= 10


def test_hostile_names_are_text(open_page, made):
    reader = open_page("hostile")
    assert HOSTILE in reader.page.locator("main table").first.text_content()
    assert HOSTILE in reader.page.locator(".lead").text_content()
    assert any(HOSTILE in text for text in reader.page.locator(".legend li").all_text_contents())
    assert reader.page.locator("svg a, main a[href^=http]").count() == 0


@pytest.mark.parametrize("name", ["bursts", "hostile", "empty"])
def test_a_phone_scrolls_only_vertically(open_page, name):
    reader = open_page(name, viewport={"width": 390, "height": 844}, has_touch=True, is_mobile=True)
    assert reader.page.evaluate("document.documentElement.scrollWidth") == 390
    assert reader.troubles == []


def test_a_touch_zooms_no_figure(open_page):
    """It scrolls the page. Nothing would bring the whole figure back."""
    reader = open_page("bursts", viewport={"width": 800, "height": 900}, has_touch=True)
    page, touch = reader.page, reader.context.new_cdp_session(reader.page)
    figures = page.locator("[data-figure] .nsewdrag").all()
    drawn = "[...document.querySelectorAll('[data-figure]')]"
    shown = f"{drawn}.map(({{layout}}) => [layout.xaxis?.range, layout.yaxis?.range])"
    page.evaluate(  # as with a mouse beside the touch screen
        f"for (const one of {drawn}) if (one.layout.dragmode === false) Plotly.relayout(one, {{dragmode: 'zoom'}})"
    )
    before = page.evaluate(shown)
    for figure in figures:
        figure.scroll_into_view_if_needed()
        box = figure.bounding_box()
        for kind, far in (("Start", [0]), ("Move", [20]), ("Move", [120]), ("End", [])):
            points = [{"x": box["x"] + 30 + by, "y": box["y"] + box["height"] / 2} for by in far]
            touch.send("Input.dispatchTouchEvent", {"type": f"touch{kind}", "touchPoints": points})
        page.wait_for_timeout(100)
    assert len(figures) >= 5 and page.evaluate(shown) == before


def test_the_dark_scheme_is_dark_and_paper_is_light(open_page):
    reader = open_page(color_scheme="dark")
    bar = "document.querySelector('[data-figure=\"2\"]').data[0].marker.color[0]"
    dark = reader.page.evaluate(bar)
    assert reader.page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(20, 23, 26)"
    reader.page.emulate_media(color_scheme="light")
    reader.page.wait_for_timeout(400)
    assert reader.page.evaluate(bar) != dark
    assert reader.page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(252, 252, 250)"


def test_figures_and_regions_have_names(shown):
    reader, _ = shown
    nameless = reader.page.evaluate("""() => [...document.querySelectorAll('section, [role=img]')]
        .filter(e => !(e.getAttribute('aria-label') || document.getElementById(e.getAttribute('aria-labelledby'))))
        .map(e => e.outerHTML.slice(0, 80))""")
    assert nameless == []
    assert reader.page.evaluate("document.querySelectorAll('h1').length") == 1


def test_figures_fit_on_paper(open_page):
    reader = open_page(viewport={"width": 1900, "height": 1000})
    reader.check_paper()
