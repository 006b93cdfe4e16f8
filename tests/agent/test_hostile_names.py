"""Hostile names in every message and page: mail, picture, Slack, Alertmanager, metrics, reports and the index of
reports."""

from __future__ import annotations

import email
import email.policy
import json
import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest
from hostile import HOSTILE, MARKUP
from racklib import DAY, START, fill, report

from mburst import names
from mburst.agent.delivery import Delivery, Digest
from mburst.agent.delivery.digest import DigestEntry
from mburst.agent.delivery.kinds import KINDS, alertmanager, smtp, webhook
from mburst.agent.delivery.picture import png
from mburst.dashboards.common.summaries import summaries
from mburst.dashboards.rack import page
from mburst.sql import StoreFolder

NAMED = list(HOSTILE.values())
ON_A_LINE = [name for name in NAMED if "\0" not in name]
HARMLESS = {
    "html",
    "head",
    "meta",
    "title",
    "style",
    "body",
    "a",
    "header",
    "main",
    "section",
    "h1",
    "h2",
    "h3",
    "p",
    "ul",
    "li",
    "div",
    "span",
    "strong",
    "small",
    "dl",
    "dt",
    "dd",
    "table",
    "caption",
    "thead",
    "tbody",
    "tr",
    "th",
    "td",
    "svg",
    "text",
    "rect",
    "path",
    "footer",
    "em",
    "b",
    "code",
    "figure",
    "img",
}


class Tags(HTMLParser):
    """Collects the tags, attributes and text of a page."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(html)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data):
        self.text += data


def is_text(html: str, image: str = "") -> str:
    """Checks that a page has no unexpected tag, attribute or address. Returns its text."""
    found = Tags(html)
    for tag, attributes in found.tags:
        assert tag in HARMLESS, (tag, attributes)
        assert not any(name.startswith("on") for name in attributes), (tag, attributes)
        address = attributes.get("href") or attributes.get("src") or ""
        assert re.match(r"#|index\.html|https://site\.example/|rack-[A-Za-z0-9._-]+\.html$|cid:|$", address), address
        assert tag != "img" or address == image
    assert all(map(is_seen, found.text.split("\n")))
    return found.text


def is_seen(text: str) -> bool:
    return text.replace("\N{NO-BREAK SPACE}", "").isprintable()


@pytest.fixture(scope="module")
def folder_of_reports(tmp_path_factory):
    """A folder with the report of a rack. The names of its hosts, interfaces and senders, and its own, are hostile."""
    root = tmp_path_factory.mktemp("hostile")
    store = StoreFolder.create(root / "store")
    rack = HOSTILE["script"]
    for name in ON_A_LINE:
        fill(store, {name: [(50, 10)]}, rack=rack, senders=[*NAMED[:3], name], interface=name, notes=name)
    found = report(store, rack)
    page.write(found, root / "out")
    return found, root / "out"


@pytest.fixture
def digest(folder_of_reports):
    """A digest with one rack for each name."""
    _, folder = folder_of_reports
    made = Digest.read("daily", folder, START, START + DAY, [])
    [entry] = made.entries
    racks = [
        DigestEntry(
            entry.page, entry.facts, {**entry.summary, "rack": name, "verdict": f"{name} {name}", "warnings": [name]}
        )
        for name in NAMED
    ]
    return replace(made, entries=racks, troubles=NAMED)


def to(kind: str, site: str = "https://site.example", **settings) -> Delivery:
    return Delivery("ops", kind, 1, 0, 0, site, "always", KINDS[kind].settings(settings))


def test_names_in_a_report_are_text(folder_of_reports):
    found, _ = folder_of_reports
    text = is_text(page.render(found))
    for name in ON_A_LINE:
        assert names.shown(name)[:26] in text, name


def test_names_in_the_index_are_text(folder_of_reports):
    _, folder = folder_of_reports
    [(_, summary)] = summaries(folder)
    listed = [
        (f"rack-{names.file_part(name)}", {**summary, "rack": name, "worst_host": name, "warnings": [name]})
        for name in NAMED
    ]
    text = is_text(page.render_index(listed, NAMED))
    assert all(names.shown(name) in text for name in NAMED)
    assert len({name for name, _ in listed}) == len(NAMED)


def test_names_in_a_mail_are_text(digest):
    pytest.importorskip("PIL")
    for entries in (digest.entries, *([entry] for entry in digest.entries)):
        made = smtp.message(replace(digest, entries=entries), to("smtp", to="a@b.c", **{"from": "a@b.c"}, attach=1))
        read = email.message_from_bytes(made.as_bytes(), policy=email.policy.default)
        assert is_seen(read["Subject"]) and len(read["Subject"]) < 300 and read["Bcc"] is None and read["To"] == "a@b.c"
        plain, html = (read.get_body((kind,)).get_content() for kind in ("plain", "html"))
        plain = plain.replace("\r\n", "\n")
        assert all(map(is_seen, plain.split("\n"))) and "\n\nmburst: " not in plain
        is_text(html.replace("\r\n", "\n"), "cid:picture@mburst")
        assert [
            re.fullmatch(r"(bursts\.png|rack-[A-Za-z0-9._-]+\.html)", part.get_filename())
            for part in read.iter_attachments()
            if part.get_filename()
        ]


def test_a_picture_takes_any_name():
    pytest.importorskip("PIL")
    assert png(NAMED, [[0.5, None, 0.0]] * len(NAMED), NAMED[:3]).startswith(b"\x89PNG")


def test_names_are_no_commands_in_slack(digest):
    for entry, name in zip(digest.entries, NAMED, strict=True):
        for site in ("", "https://site.example"):
            payload = webhook.slack(replace(digest, entries=[entry], troubles=[name]), site)
            texts = [payload["text"], *(block["text"]["text"] for block in payload["blocks"])]
            for text in texts:
                rest = re.sub(r"<https://site\.example/rack-[A-Za-z0-9._-]+\.html\|[^<>|\n]*>", "", text)
                assert "<" not in rest and ">" not in rest and all(map(is_seen, text.split("\n"))), text
                assert not re.search(r"&(?!(amp|lt|gt);)", text) and len(text) <= 3000
            assert len(payload["blocks"][0]["text"]["text"]) <= 150
    json.dumps(webhook.slack(digest, ""))


def test_a_long_name_leaves_room_for_other_racks(digest):
    entries = [replace(entry, summary={**entry.summary, "rack": "x" * 9000}) for entry in digest.entries[:2]]
    entries.append(replace(entries[0], summary={**entries[0].summary, "rack": "other", "verdict": "calm"}))
    assert "*other*: calm" in webhook.slack(replace(digest, entries=entries), "")["blocks"][1]["text"]["text"]


def test_names_in_alerts_are_text(digest):
    labels = set()
    for entry in digest.entries:
        made = alertmanager.alert(digest, entry, "https://site.example")
        assert all(map(is_seen, [*made["labels"].values(), *made["annotations"].values()]))
        labels.add(made["labels"]["rack"])
    assert len(labels) == len(NAMED)
    assert is_seen(alertmanager.trouble(digest, 0, NAMED[0])["annotations"]["summary"])


def test_metrics_have_the_names_unchanged(tmp_path):
    from prometheus_client import CollectorRegistry
    from prometheus_client.exposition import choose_encoder
    from prometheus_client.openmetrics.parser import text_string_to_metric_families as open_metrics
    from prometheus_client.parser import text_string_to_metric_families as plain

    from mburst.agent.metrics.exporter import Exporter
    from mburst.agent.metrics.meter import Meter
    from mburst.analysis.bursts.find import BurstDefinition

    store = StoreFolder.create(tmp_path / "store")
    for name in ON_A_LINE:
        fill(store, {name: [(50, 3)]}, rack=name[:20])
    registry = CollectorRegistry(auto_describe=False)
    registry.register(Exporter(Meter(store, BurstDefinition(), START)))
    for accept, parse in (("", plain), ("application/openmetrics-text;version=1.0.0", open_metrics)):
        encode, _ = choose_encoder(accept)
        text = encode(registry).decode()
        hosts = {sample.labels.get("host") for family in parse(text) for sample in family.samples} - {None}
        assert hosts == set(ON_A_LINE)
    assert MARKUP


def test_racks_never_share_a_file(tmp_path):
    one = report(StoreFolder.create(tmp_path / "store"), "r1")
    names_of_racks = [*NAMED, "east-rack-0001", "east/rack-0001", "east_rack-0001"]
    stems = [page.stem(replace(one, rack=name)) for name in names_of_racks]
    assert len(set(map(str.lower, stems))) == len(stems)
    assert all(re.fullmatch(r"[A-Za-z0-9._-]{1,200}", stem) for stem in stems)
