"""Every string that comes from a store or the network is text on every page: whatever it holds, a page has the elements
and attributes that it has with plain names. In a browser: tests/browser/test_hostile_browser.py."""

from __future__ import annotations

import ast
import re
from html.parser import HTMLParser
from pathlib import Path

import pyarrow as pa
import pytest
import racklib
from hostile import HOSTILE
from places import ROOT
from storelib import write

from mburst.analysis.answers.host import detect, gather, lanes
from mburst.analysis.answers.investigate import investigate
from mburst.analysis.answers.paths import Selection, read_met
from mburst.analysis.bursts.find import BurstDefinition
from mburst.analysis.cause.read import Question
from mburst.analysis.rack.period import Period
from mburst.dashboards.common import page
from mburst.dashboards.common.blocks import Link, Table
from mburst.dashboards.investigation.page import render as render_investigation
from mburst.dashboards.rack import page as rack_page
from mburst.dashboards.report import page as report_page
from mburst.names import shown
from mburst.sql import Store
from mburst.sql.damage import DamagedFile
from mburst.sql.tables import arrow_schema

START = racklib.START
MS = 10**6
BIN = 100_000
SECONDS = 1
NAMES = [name for name in HOSTILE.values() if "\0" not in name]
ATTACK = "</title></style></script><img src=x onerror=a()>\"onload='a()'\x1b[2J\u202e&lt;{{x}}"  # fits a file's name
KEPT = {"direction": "in", "recording_id": "r", "ended": "finished", "writer_id": "0123456789ab"}


class Seen(HTMLParser):
    """The elements of a page with the names of their attributes, and all that its readers see of it."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, ...]] = []
        self.texts: list[str] = []
        self.feed(html)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, *(name for name, _ in attrs)))
        self.texts += [value for _, value in attrs if value]

    def handle_endtag(self, tag):
        self.elements.append((f"/{tag}",))

    def handle_comment(self, data):
        self.elements.append(("comment",))

    def handle_data(self, data):
        if self.elements and self.elements[-1][0] not in ("script", "style"):
            self.texts.append(data)


def names_of(table: str, name: str) -> dict[str, str]:
    """A value for each column of text, by the column's own name, so that rows keep their order."""
    columns = [field.name for field in arrow_schema(table) if field.type == pa.string()]
    texts = {column: name if column == "rack" else f"{column} {name}" for column in columns}
    return {**texts, **{column: kept for column, kept in KEPT.items() if column in texts}}


def filled(folder: Path, name: str) -> Store:
    """A host with a burst of four senders each 100 ms, probes to it that wait for them, and its switch queue."""
    store = Store.create(folder)
    names = {table: names_of(table, name) for table in ("recordings", "bins", "sources", "probes", "queues")}
    bursts = [at * 100 * MS for at in range(SECONDS * 10)]
    write(store, "recordings", {**names["recordings"], "start_ns": START, "end_ns": START + SECONDS * 1000 * MS,
                                "bin_ns": BIN, "packets": 9, "written_ns": START + SECONDS * 1000 * MS})
    write(store, "bins", *({**names["bins"], "ts_ns": START + at + i * BIN, "wire_bytes": 12_500, "bytes": 12_000}
                           for at in bursts for i in range(100)))
    write(store, "sources", *({**names["sources"], "source": f"{sender} {name}", "ts_ns": START + at + ms * MS,
                               "bytes": 30_000, "packets": 20, "first_ns": START + at + ms * MS,
                               "last_ns": START + at + (ms + 1) * MS - 1}
                              for at in bursts for ms in range(10) for sender in range(4)))
    write(store, "probes", *({**names["probes"], "dst": names["bins"]["host"], "seq": i, "tx_ns": START + i * MS,
                              "rx_ns": START + i * MS + (8 * MS if i % 100 < 3 else 30_000)}
                             for i in range(SECONDS * 1000)))
    write(store, "queues", *({**names["queues"], "window_start_ns": START + at, "ts_ns": START + at + 10 * MS,
                              "max_bytes": 900_000} for at in bursts))
    return store


def pages(folder: Path, name: str) -> dict[str, str]:
    """Every page, with NAME in each string."""
    store = filled(folder / "store", name)
    con, definition = store.connect(), BurstDefinition()
    chosen = lanes(con)
    found = gather(con, chosen, detect(con, chosen, definition))
    damaged = [DamagedFile(name, "bins", name, name, name, START, START + MS)]
    rack = racklib.gather(store, found[0].lane.rack, Period(START, START + racklib.HOUR), definition)
    _, facts = rack_page.write(rack, folder / "racks")
    [(_, summary)] = rack_page.summaries(facts.parent)
    return {
        "report": report_page.render(found, definition, read_met(con, Selection()), damaged),
        "rack": rack_page.render(rack),
        "index": rack_page.render_index([(name, {**summary, "warnings": [name]})], [name]),
        "investigation": render_investigation(investigate(con, Question(definition))),
        "live": page.render("live/page.html", title=name),
    }


def test_no_string_is_more_than_text(tmp_path):
    plain, hostile = pages(tmp_path / "plain", "plain"), pages(tmp_path / "hostile", ATTACK)
    for kind in plain:
        seen = Seen(hostile[kind])
        assert seen.elements == Seen(plain[kind]).elements, kind
        assert not [text for text in seen.texts if not re.sub(r"[\n\N{NO-BREAK SPACE}]", "", text).isprintable()], kind
        assert any(shown(ATTACK) in text for text in seen.texts), kind


@pytest.mark.parametrize("name", NAMES)
def test_each_kind_of_value_in_a_template_is_text(name):
    """Between tags, in an attribute, as a cell, a link, a term, by a macro."""
    seen, plain = (Seen(page.render(
        "rack/index.html", policy=each, css="", troubles=[each], count=each,
        periods=[(each, Table(each, [each], [[Link(each, each, each), each]]))])) for each in (name, "plain"))
    assert seen.elements == plain.elements
    assert seen.texts.count(shown(name)) == plain.texts.count("plain") == 11


def test_html_is_in_templates_alone():
    for path in (ROOT / "dashboards").rglob("*.py"):
        strings = [node.value for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Constant)
                   and isinstance(node.value, str)]
        assert not [text for text in strings if re.search(r"</?(?!br>|extra>)[a-z]+[ >]", text)], path
        assert "Markup" not in path.read_text() or path == ROOT / "dashboards" / "common" / "page.py", path
    for template in (ROOT / "dashboards" / "templates").rglob("*.html"):
        assert not re.search(r"\|\s*safe|autoescape", template.read_text()), template
