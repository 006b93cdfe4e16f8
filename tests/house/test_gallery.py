"""The pictures of docs/gallery.md are in the repository, are small, and show the current pages."""

from __future__ import annotations

import json
import re
import runpy
from pathlib import Path

import pytest
from places import ROOT

FOLDER = ROOT / "docs" / "gallery"
MOST_BYTES = 200_000
GALLERY = runpy.run_path(str(ROOT / "docs" / "gallery.py"))


def test_every_picture_is_explained_shown_and_small() -> None:
    text = (ROOT / "docs" / "gallery.md").read_text("utf-8")
    kept = {path.name for path in FOLDER.iterdir()} - {GALLERY["MADE_FROM"]}
    assert kept == {*GALLERY["made_from"](), "terminal.svg"}
    assert kept == set(re.findall(r"^\| `gallery/(\S+)` \|", text, re.MULTILINE))
    assert kept == set(re.findall(r"\]\(gallery/(\S+)\)", text))
    assert [name for name in kept if (FOLDER / name).stat().st_size > MOST_BYTES] == []


def test_pictures_show_the_current_pages() -> None:
    made_from = json.loads((FOLDER / GALLERY["MADE_FROM"]).read_text("utf-8"))
    now = GALLERY["made_from"]()
    stale = sorted(name for name in made_from.keys() | now if made_from.get(name) != now.get(name))
    assert stale == [], "templates or style sheets have changed: make gallery, and look at the pictures"


def test_a_page_depends_only_on_its_own_templates_and_styles(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    digest = GALLERY["digest"]
    monkeypatch.setitem(digest.__globals__, "DASHBOARDS", tmp_path)
    for kind, room, name in (("templates", "rack", "page.html"), ("static", "common", "page.css")):
        (tmp_path / kind / room).mkdir(parents=True)
        (tmp_path / kind / room / name).write_text("before")
    rack, live = digest("rack"), digest("live")
    (tmp_path / "templates" / "rack" / "page.html").write_text("after")
    assert digest("rack") != rack and digest("live") == live
    (tmp_path / "static" / "common" / "page.css").write_text("after")
    assert digest("live") != live


def test_the_terminal_shows_no_folder_of_a_machine_and_loads_nothing() -> None:
    drawn = (FOLDER / "terminal.svg").read_text("utf-8")
    assert "Detected&#160;40&#160;of&#160;40&#160;incasts" in drawn
    assert not re.search(r"/tmp|/home|/work|url\(http|@import|<script|href=", drawn)
