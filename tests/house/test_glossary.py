"""docs/glossary.md has each table, column, quality bit and option. Strings, comments, pages, help texts and
identifiers, in tests and in C too, keep to the words of the style sheet (CONTRIBUTING.md)."""

from __future__ import annotations

import argparse
import ast
import io
import re
import tokenize
from functools import cache
from pathlib import Path

import pytest
from places import ROOT
from tracked import tracked
from verb_parsers import parsers

from mburst.sql import described
from mburst.sql.tables import LISTING, MODEL, columns, model_sql, schema_sql

THINGS = "duration|link speed|size|time|share|host|port|address|number|text|table|TOML|YAML|JSON|CSV"
NO_THING = rf"\b(is|are) no ({THINGS})\b"

# Words that a text must not have, with the words to use instead.
WORDS = {
    r"\bjudg(e|es|ed|ing)\b": "test, detect, classify",
    r"\b(un)?told\b": "reported, separated, known",
    r"\btells?\b": "report, show, separate",
    r"\breckon\w*": "estimate, compute",
    r"\bbef(all|alls|ell|allen)\b": "happen to",
    r"\bown(s|ed)? up\b": "report",
    r"\bso-manieth\b": "every Nth",
    r"\bhangs (on|at|off)\b": "is attached to",
    NO_THING: "invalid X, not a X",
    r"\bfor want of\b": "for lack of",
    r"\bsomebody must\b": "must",
    r"\banew\b": "again, new, restart",
    r"\banyhow\b": "always",
    r"\bgood order\b": "cleanly",
    r"\b(all|everything) is well\b|\bis it well\b": "no problem, status",
    r"\bwhat(ever)? becomes? of\b": "how X is processed",
}
NAMES = re.compile(r"(^|_)(told|untold|tells?|judg(e|es|ed|ing)|reckon(s|ed|ing)?|besides|befell|anew)(_|$)")
# `tell` of files (pyarrow, io) has this name.
FOREIGN = {"tell"}


@cache
def sections() -> dict[str, list[list[str]]]:
    """Returns the rows of the tables of each section of the glossary, without backticks."""
    parts = re.split(r"^## ", (ROOT / "docs" / "glossary.md").read_text("utf-8"), flags=re.MULTILINE)[1:]
    return {
        part.partition("\n")[0]: [
            [cell.strip() for cell in row.replace("`", "").strip("|").split("|")]
            for table in re.findall(r"(?:^\|.*\|\n)+", part, re.MULTILINE)
            for row in table.splitlines()[2:]
        ]
        for part in parts
    }


def names(section: str) -> list[str]:
    return [row[0] for row in sections()[section]]


def test_every_entry_is_listed_once_with_a_meaning() -> None:
    for section, rows in sections().items():
        assert all(len(row) == 2 and row[1] for row in rows), section
        assert len({row[0] for row in rows}) == len(rows), section
    assert names("Terms") == sorted(names("Terms"), key=str.casefold)


def test_every_table_and_view_is_in_the_glossary() -> None:
    assert set(names("Tables")) == {*LISTING, *MODEL, "quality"}


def test_every_column_or_its_ending_is_in_the_glossary() -> None:
    in_use = {column.name for table in LISTING for column in columns(table)}
    in_use |= {column.name for view in MODEL for column in described.columns(model_sql(view))}
    listed = set(names("Columns"))
    endings = tuple(name for name in listed if name.startswith("_"))
    assert {name for name in in_use if not name.endswith(endings)} == listed - set(endings)
    assert all(any(name.endswith(ending) for name in in_use) for ending in endings)


def test_every_quality_bit_is_in_the_glossary() -> None:
    assert names("Quality bits") == re.findall(r"\(\d+,\s+'(.*?)',", schema_sql("quality"))


def test_every_option_is_in_the_glossary() -> None:
    in_use = {
        option
        for parser in parsers().values()
        for action in parser._actions
        for option in action.option_strings
        if option.startswith("--") and not isinstance(action, argparse._HelpAction | argparse._VersionAction)
    }
    assert set(names("Options")) == in_use


# --- words ------------------------------------------------------------------------------------------------------------


def faults(text: str, where: str) -> list[str]:
    """Returns a line for each forbidden word in TEXT, with the words to use."""
    return [
        f"{where}: {match[0]!r}: {instead}"
        for pattern, instead in WORDS.items()
        for match in re.finditer(pattern, text, re.IGNORECASE)
    ]


def strings(path: Path) -> list[tuple[int, str]]:
    """Returns the strings of a module that people can read, with their lines: those with a blank, docstrings
    included."""
    tree = ast.parse((ROOT / path).read_text("utf-8"))
    return [
        (node.lineno, node.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value
    ]


def comments(path: Path) -> list[tuple[int, str]]:
    return [
        (token.start[0], token.string)
        for token in tokenize.generate_tokens(io.StringIO((ROOT / path).read_text()).readline)
        if token.type == tokenize.COMMENT
    ]


MODULES = tracked("mburst/*.py", "telemetry/*.py", "sql/*.py", "analysis/*.py", "capture/*.py", "dashboards/*.py")


def test_modules_are_found() -> None:
    assert len(MODULES) > 150


def test_strings_and_comments_have_the_fields_words() -> None:
    found = [
        fault
        for path in MODULES
        for line, text in strings(path) + comments(path)
        for fault in faults(text, f"{path}:{line}")
    ]
    assert not found, "\n".join(found)


TESTS = tracked("tests/*.py", "bench/*.py", "docs/*.py", ":!tests/house/test_glossary.py")


@pytest.mark.parametrize("path", TESTS, ids=str)
def test_tests_have_the_fields_words(path: Path) -> None:
    found = [fault for line, text in strings(path) + comments(path) for fault in faults(text, f"{path.name}:{line}")]
    assert not found, "\n".join(found)


# The style sheet quotes the words; the changelog is history.
PAGES = [
    path
    for path in tracked(
        "*.md", "*.sql", "*.toml", "*.yml", "*.yaml", "*.service", "*.pyi", "*.js", "Makefile", ":!tests", ":!*plotly*"
    )
    + tracked("*.c", "*.h")
    if str(path) not in {"CONTRIBUTING.md", "CHANGELOG.md"}
]


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_pages_have_the_fields_words(path: Path) -> None:
    found = [
        fault
        for number, line in enumerate((ROOT / path).read_text("utf-8").splitlines(), 1)
        for fault in faults(line, f"{path}:{number}")
    ]
    assert not found, "\n".join(found)


def test_help_texts_have_the_fields_words() -> None:
    found = [fault for name, parser in parsers().items() for fault in faults(parser.format_help(), name)]
    assert not found, "\n".join(found)


def test_identifiers_name_the_thing() -> None:
    found = {
        (str(path), token.string)
        for path in MODULES
        for token in tokenize.generate_tokens(io.StringIO((ROOT / path).read_text()).readline)
        if token.type == tokenize.NAME and token.string not in FOREIGN and NAMES.search(token.string)
    }
    assert not found, "\n".join(f"{path}: {name}" for path, name in sorted(found))
