"""Help texts, documentation and the parser agree. `make docs` updates docs/cli.md."""

from __future__ import annotations

import argparse
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
from places import ROOT
from verb_parsers import parsers

from mburst.cli import VERBS, build_parser

OF_OTHERS = {  # programs that pages call: pip, gdb, py-spy, those of bench/, podman, systemctl
    "--args",
    "--build-arg",
    "--cap-add",
    "--cap-drop",
    "--editable",
    "--explain",
    "--file",
    "--find-links",
    "--network",
    "--no-build-isolation",
    "--no-deps",
    "--no-index",
    "--now",
    "--paced",
    "--pid",
    "--read-only",
    "--rm",
    "--seeds",
    "--tag",
    "--tmpfs",
}
PAGES = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").glob("*.md"))]


def same(text: str) -> str:
    """Returns a help text without differences between versions of Python: line breaks, and the repeated metavar."""
    return re.sub(r"(-\w) ([^\s,\]]+), (--[\w-]+ \2)", r"\1, \3", " ".join(text.split()))


def commands() -> Iterator[tuple[Path, str]]:
    """Returns every call of mburst in a page: lines of code, and code within a line if it has arguments other than
    options."""
    for page in PAGES:
        text = page.read_text("utf-8")
        blocks = re.findall(r"^```(\w*)\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
        lines = [
            line.removeprefix("$ ")
            for kind, block in blocks
            if kind in ("sh", "console")
            for line in re.sub(r"\\\n\s*", "", block).splitlines()
        ]
        prose = re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
        inline = [" ".join(code.split()) for code in re.findall(r"`([^`]+)`", prose)]
        lines += [code for code in inline if len([word for word in code.split() if word[0] != "-"]) > 2]
        yield from ((page, part) for line in lines for part in line.split(" | ") if part.startswith("mburst "))


@pytest.mark.parametrize("title, parser", parsers().items(), ids=parsers())
def test_the_page_has_each_help_text(
    title: str, parser: argparse.ArgumentParser, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    page = (ROOT / "docs" / "cli.md").read_text("utf-8")
    shown = dict(re.findall(r"^## (.*?)\n+```text\n(.*?)```", page, re.MULTILINE | re.DOTALL))
    assert list(shown) == list(parsers())
    assert same(shown[title]) == same(parser.format_help()), "docs/cli.md is behind: run `make docs`"


@pytest.mark.parametrize("title, parser", parsers().items(), ids=parsers())
def test_everything_has_help(title: str, parser: argparse.ArgumentParser) -> None:
    assert parser.description
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            helps = [choice.help for choice in action._choices_actions]
            assert len(helps) == (len(VERBS) if title == "mburst" else len(action.choices)) and all(helps)
        else:
            assert action.help, f"{title} {action.option_strings or action.dest} has no help"


@pytest.mark.parametrize("title, parser", parsers().items(), ids=parsers())
def test_no_help_shows_a_default_in_python_syntax(title: str, parser: argparse.ArgumentParser) -> None:
    assert not re.findall(r"\b(?:None|True|False)\b|\[\]", parser.format_help().partition("\n\n")[2])


def test_the_readme_has_a_row_for_each_verb() -> None:
    table = (ROOT / "README.md").read_text("utf-8").partition("## The verbs")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| `mburst ([\w-]+)` \|", table, re.MULTILINE)
    verbs = [title.split()[1] for title in parsers() if title.count(" ") == 1]
    assert sorted(rows) == sorted(verbs)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_option_that_is_named_exists(page: Path) -> None:
    known = {option for parser in parsers().values() for option in parser._option_string_actions}
    named = set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", page.read_text("utf-8")))
    assert named <= known | OF_OTHERS


@pytest.mark.parametrize("page, command", list(commands()), ids=lambda value: str(getattr(value, "name", value)))
def test_every_command_parses(page: Path, command: str) -> None:
    build_parser().parse_args(shlex.split(command, comments=True)[1:])  # raises UsageError if it does not


def test_there_are_commands_to_parse() -> None:
    assert len(list(commands())) >= 15
