"""Names from outside are text on terminals, in CSV and JSON, and in file names."""

from __future__ import annotations

import csv
import io
import json
import re
import sys
from html.parser import HTMLParser

import pytest
from hostile import HOSTILE, MARKUP
from hypothesis import given
from hypothesis import strategies as st
from storelib import rows

from mburst import messages, names
from mburst.__main__ import main
from mburst.cli import output
from mburst.dashboards.common.page import _environment
from mburst.sql import StoreFolder

NAMES = st.one_of(st.text(), st.sampled_from(list(HOSTILE.values())))
ESCAPE = re.compile(r"\\(?:x([0-9a-f]{2})|u([0-9a-f]{4})|U([0-9a-f]{8}))")


BLANKS = "".join(
    map(
        chr,
        (
            0x34F,
            0x115F,
            0x1160,
            0x17B4,
            0x17B5,
            *range(0x180B, 0x1810),
            0x2800,
            0x3164,
            *range(0xFE00, 0xFE10),
            0xFFA0,
            *range(0xE0100, 0xE01F0),
        ),
    )
)  # printable, but invisible


def is_seen(text: str) -> bool:
    """Returns whether the text has no character that a terminal obeys or hides."""
    return text.replace("\N{NO-BREAK SPACE}", "").isprintable() and not set(text) & set(BLANKS)


@pytest.mark.parametrize("blank", ["\N{HANGUL FILLER}", "\N{BRAILLE PATTERN BLANK}", BLANKS])
def test_invisible_characters_are_escaped(blank):
    assert "\\" in names.shown(f"cache-1{blank}") and names.seen_json(json.dumps(blank, ensure_ascii=False)).isascii()


@given(NAMES)
def test_what_is_shown_is_one_line_and_can_be_read_back(name):
    shown = names.shown(name)
    assert is_seen(shown)
    assert names.shown(shown) == shown and (not is_seen(name) or shown == name)
    if "\\" not in name:
        assert ESCAPE.sub(lambda found: chr(int(next(filter(None, found.groups())), 16)), shown) == name


@given(NAMES, st.integers(1, 80))
def test_what_is_cut_is_short(name, most):
    assert len(names.short(name, most)) <= most


class Texts(HTMLParser):
    """Collects the text and the tags of a page."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.text, self.tags = "", []
        self.feed(html)
        self.close()

    def handle_data(self, data):
        self.text += data

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, attrs))


@given(NAMES)
def test_html_has_the_name_and_no_tag_of_it(name):
    lines = names.shown(name)
    page = Texts(_environment().from_string('<p title="{{ name }}">{{ name }}</p>').render(name=name))
    assert page.tags == [("p", [("title", lines)])] and page.text == lines


@given(NAMES)
def test_a_figure_takes_a_name_as_text(name):
    page = Texts(names.label(name))
    assert page.tags == [] and page.text == names.shown(name)


@given(st.lists(NAMES, min_size=2, max_size=8, unique=True), st.sampled_from(["", "-"]))
def test_no_two_names_share_a_file(several, allowed):
    parts = [names.file_part(name, allowed) for name in several]
    assert len(set(parts)) == len(parts)
    for part in parts:
        assert re.fullmatch(r"[A-Za-z0-9._-]{1,80}", part) and part not in (".", "..")


def test_a_name_that_looks_like_a_replaced_one_is_another_file():
    made = names.file_part("east/rack")
    assert names.file_part(made) != made and names.file_part("east-rack") == "east-rack"


CELLS = st.one_of(NAMES, st.integers(), st.none(), st.lists(NAMES))


@given(st.lists(st.tuples(CELLS, CELLS), max_size=5))
def test_a_table_is_lines_of_text(rows):
    out = io.StringIO()
    output.write("table", ["a", "b\x1b"], rows, out)
    lines = out.getvalue().split("\n")
    assert len(lines) == len(rows) + 2 and all(map(is_seen, lines))


@given(st.lists(st.tuples(NAMES, st.integers()), max_size=5))
def test_json_has_the_same_names_and_nothing_that_a_terminal_obeys(rows):
    out = io.StringIO()
    output.write("json", ["name", "n"], rows, out)
    assert all(map(is_seen, out.getvalue().split("\n")))
    assert [(row["name"], row["n"]) for row in json.loads(out.getvalue())] == rows


@given(st.lists(st.tuples(NAMES, st.integers(-9, 9), st.floats(allow_nan=False)), max_size=5))
def test_no_cell_of_csv_is_computed_and_numbers_stay(rows):
    out = io.StringIO()
    output.write("csv", ["name", "n", "x"], rows, out)
    found = (
        list(csv.reader(io.StringIO(out.getvalue().replace("\0", "")), strict=True))[1:]
        if not any("\r" in name or "\n" in name for name, *_ in rows)
        else []
    )
    for (name, number, x), (cell, *numbers) in zip(rows, found, strict=False):
        assert not cell.startswith(names.FORMULA) and cell in (name.replace("\0", ""), "'" + name.replace("\0", ""))
        assert [int(numbers[0]), float(numbers[1])] == [number, x]


def test_csv_on_a_terminal_has_no_control_characters():
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    out = Terminal()
    output.write("csv", ["name", "list"], [(name, [name]) for name in HOSTILE.values()], out)
    assert all(map(is_seen, out.getvalue().split("\n")))


@pytest.mark.parametrize("name", HOSTILE.values(), ids=HOSTILE)
def test_errors_are_one_line(name, capsys):
    if "\0" not in name:
        main(["bursts", "--", name])
        main(["report", f"--output={name}", "--", name])
        main(["live", f"--listen={name}", "--", name])
        main([f"x{name}"])
        for line in capsys.readouterr().err.splitlines():
            assert line.startswith("mburst: ") and is_seen(line)


def test_printed_lines_are_single_lines(capsys):
    for name in HOSTILE.values():
        messages.print_message(name)
        messages.print_lines(name)
    printed = capsys.readouterr()
    for lines in (printed.err.splitlines(), printed.out.splitlines()):
        assert len(lines) == len(HOSTILE) and all(map(is_seen, lines))
    assert "hostile" in printed.out and len(MARKUP) > 5 and sys.stderr


@pytest.mark.parametrize("options", [[], ["--json"], ["--deep"]])
def test_files_of_a_store_are_checked_and_repaired_under_escaped_names(options, tmp_path, capfd):
    """Whoever may write into the folder of a store chooses them."""
    store, name = StoreFolder.create(tmp_path / "store"), "evil\x1b[31m\u202e"
    with store.writer("links", rack="r") as writer:
        writer.append(rows("links", {"rack": "r", "device": "tor1", "port": "1", "origin": "lldp", "present": True}))
    [sealed] = (store.path / "links").rglob("*.parquet")
    sealed.write_bytes(sealed.read_bytes()[:-1])
    sealed.parent.rename(sealed.parent.with_name(f"rack={name}"))
    (store.path / f"{name}.txt").write_text("")
    for verb in (["check", *options], ["repair", "--dry-run"], ["repair"]):
        main([verb[0], str(store.path), *verb[1:]])
    printed = capfd.readouterr()
    assert printed.out.count("evil") >= 4 and "set aside" in printed.out
    assert all(map(is_seen, [*printed.out.splitlines(), *printed.err.splitlines()]))


def test_neither_cells_nor_columns_of_csv_are_formulas():
    begins = ["=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠"]
    texts = [f"{begin}SUM(1)" for begin in begins]
    out = io.StringIO()
    output.write_csv(texts, [texts], out)
    rows = list(csv.reader(io.StringIO(out.getvalue(), newline="")))
    assert rows == [[f"'{text}" for text in texts]] * 2
