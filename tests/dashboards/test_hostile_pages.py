"""Every string that comes from a store or the network is text on every page: whatever it contains, a page has the same
elements and attributes as with plain names. In a browser: tests/browser/test_hostile_browser.py."""

from __future__ import annotations

import ast
import re
from html.parser import HTMLParser

import pytest
from hostile import HOSTILE
from pagelib import ATTACK, pages
from places import ROOT

from mburst.dashboards.common import page
from mburst.dashboards.common.blocks import LinkCell, PageTable
from mburst.names import shown

NAMES = [name for name in HOSTILE.values() if "\0" not in name]


class Seen(HTMLParser):
    """The elements of a page with the names of their attributes, and everything that its readers see of it."""

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


def test_no_string_is_more_than_text(tmp_path):
    plain, hostile = pages(tmp_path / "plain", "plain"), pages(tmp_path / "hostile", ATTACK)
    for kind in plain:
        seen = Seen(hostile[kind])
        assert seen.elements == Seen(plain[kind]).elements, kind
        assert not [text for text in seen.texts if not re.sub(r"[\n\N{NO-BREAK SPACE}]", "", text).isprintable()], kind
        assert any(shown(ATTACK) in text for text in seen.texts), kind


@pytest.mark.parametrize("name", NAMES)
def test_each_kind_of_value_in_a_template_is_text(name):
    """Between tags, in an attribute, as a cell, as a link, as a term, by a macro."""
    seen, plain = (
        Seen(
            page.render(
                "rack/index.html",
                policy=each,
                css="",
                troubles=[each],
                count=each,
                periods=[(each, PageTable(each, [each], [[LinkCell(each, each, each), each]]))],
            )
        )
        for each in (name, "plain")
    )
    assert seen.elements == plain.elements
    assert seen.texts.count(shown(name)) == plain.texts.count("plain") == 11


def test_html_is_only_in_templates():
    for path in [*(ROOT / "dashboards").rglob("*.py"), *(ROOT / "mburst" / "agent").rglob("*.py")]:
        strings = [
            node.value
            for node in ast.walk(ast.parse(path.read_text()))
            if isinstance(node, ast.Constant) and isinstance(node.value, str)
        ]
        assert not [text for text in strings if re.search(r"</?(?!br>|extra>)[a-z]+[ >]", text)], path
        assert "Markup" not in path.read_text() or path == ROOT / "dashboards" / "common" / "page.py", path
    for template in (ROOT / "dashboards" / "templates").rglob("*.html"):
        assert not re.search(r"\|\s*safe|autoescape", template.read_text()), template
