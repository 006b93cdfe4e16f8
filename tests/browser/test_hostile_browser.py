"""Hostile names in a real browser: they are text in the live page, a report, a rack's report and its index."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest
from hostile import HOSTILE
from livestore import SECOND, Growing, Server
from pagelib import ATTACK, pages
from racklib import fill, report
from storelib import write

from mburst.analysis.answers.host import gather
from mburst.analysis.answers.lanes import detect, lanes
from mburst.analysis.bursts.find import BurstDefinition
from mburst.dashboards.rack import page as rack_page
from mburst.dashboards.report import page as report_page
from mburst.sql import StoreFolder

pytest.importorskip("uvicorn")
NAMED = [name for name in HOSTILE.values() if "\0" not in name]
SENDERS = (*NAMED[:4], HOSTILE["terminal"], HOSTILE["bidi"])
SEEN = """() => {
    const found = [], walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    while (walker.nextNode()) if (/[^\\P{C}\\n\\t]|[\\p{Zl}\\p{Zp}]/u.test(walker.currentNode.data)
        && !["SCRIPT", "STYLE"].includes(walker.currentNode.parentElement.tagName)) found.push(walker.currentNode.data);
    return found; }"""
LINKS = "() => [...document.querySelectorAll('a')].map((a) => a.getAttribute('href') ?? a.getAttribute('xlink:href'))"


class Watched:
    """A page, and every effect that a name in it might have had."""

    def __init__(self, browser):
        self.context = browser.new_context(viewport={"width": 1400, "height": 1000})
        self.page = self.context.new_page()
        self.set_off: list[str] = []
        self.requests: list[str] = []
        self.page.on("dialog", lambda dialog: self.set_off.append("dialog") or dialog.dismiss())
        self.page.on("pageerror", lambda error: self.set_off.append(str(error)))
        self.page.on("console", lambda message: self.set_off.append(message.text) if message.type == "error" else None)
        self.context.on("request", lambda request: self.requests.append(request.url))

    def is_harmless(self, own: str) -> None:
        assert self.set_off == [] and all(url.startswith((own, "data:", "blob:")) for url in self.requests)
        assert self.page.evaluate(SEEN) == []
        links = self.page.evaluate(LINKS)
        assert all(link.startswith(("#", "index.html", "rack-", "fleet-", "../fleet-")) for link in links), links
        made_by_names = "img:not([src^='data:']), body iframe, body form, [onerror], [onload], [onmouseover]"
        assert self.page.locator(made_by_names).count() == 0


@pytest.fixture
def watched(browser):
    made = Watched(browser)
    yield made
    made.context.close()


def test_names_in_the_live_page_are_text(watched, tmp_path):
    growing = [
        Growing(tmp_path / "store", time.time_ns() // SECOND * SECOND, host=name, rack=name[:20], run=f"recording-{i}")
        for i, name in enumerate(NAMED)
    ]
    for one in growing:
        one.burst(3, SENDERS)
        one.append([84] * 1000)
        one.end()
    write(
        StoreFolder.open(tmp_path / "store"),
        "probes",
        *(
            {"src": name, "dst": name, "seq": 1, "tx_ns": growing[0].at - SECOND // 2, "rx_ns": growing[0].at}
            for name in NAMED
        ),
    )
    server = Server(tmp_path / "store")
    try:
        page = watched.page
        page.goto(server.url)
        page.wait_for_selector("html[data-ready]", timeout=30_000)
        page.select_option("#by", "interface")

        until = time.monotonic() + 30
        while "hostile" not in page.locator(".heat").inner_text() and time.monotonic() < until:
            page.wait_for_timeout(100)
        ticks = page.locator(".heat").inner_text()
        assert '<a href="https://evil.example/login">' in ticks and "\\u202e" in ticks and "\\x1b" in ticks
        assert page.locator(".heat a").count() == 0
        assert "<img src=x" in page.locator("#lane").inner_text() or page.locator("#lane option").count() == len(NAMED)
        for value in page.locator("#lane option").evaluate_all("found => found.map((one) => one.value)")[:8]:
            page.select_option("#lane", value)
            page.wait_for_timeout(100)
        watched.is_harmless(server.url.split("?")[0])
    finally:
        server.stop()
        for one in growing:
            one.close()


def test_names_in_a_report_with_figures_are_text(watched, tmp_path):
    store = StoreFolder.create(tmp_path / "store")
    for name in NAMED[:20]:
        fill(store, {name: [(50, 10)]}, rack=HOSTILE["bidi"], senders=SENDERS, interface=name, notes=name)
    con = store.connect()
    chosen = lanes(con)
    found = gather(con, chosen, detect(con, chosen, BurstDefinition()))
    html, _ = report_page.write(found, BurstDefinition(), tmp_path)
    watched.page.goto(html.as_uri())
    watched.page.wait_for_selector("html[data-ready]", timeout=30_000)
    watched.is_harmless(tmp_path.as_uri())


def test_names_in_a_racks_report_and_the_index_are_text(watched, tmp_path):
    store = StoreFolder.create(tmp_path / "store")
    for name in NAMED:
        fill(store, {name: [(50, 10)]}, senders=SENDERS, interface=name)
    of_all_hosts = report(store)
    for name in NAMED:
        rack_page.write(replace(of_all_hosts, rack=name[:20]), tmp_path / "out")
    index = rack_page.write_index(tmp_path / "out", NAMED)
    watched.page.goto(index.as_uri())
    watched.is_harmless(tmp_path.as_uri())
    links = watched.page.locator("td a, th a").evaluate_all("found => found.map((one) => one.href)")
    assert len(set(links)) == len({name[:20] for name in NAMED})
    for link in links[::6]:
        watched.page.goto(link)
        watched.is_harmless(tmp_path.as_uri())


def test_names_in_every_page_of_a_file_are_text(watched, tmp_path):
    for kind, html in pages(tmp_path, ATTACK).items():
        if kind != "live":  # the live page needs its server: see above
            (tmp_path / f"{kind}.html").write_text(html, encoding="utf-8")
            watched.page.goto((tmp_path / f"{kind}.html").as_uri())
            if kind in ("report", "investigation"):
                watched.page.wait_for_selector("html[data-ready]", timeout=30_000)
            watched.is_harmless(tmp_path.as_uri())
