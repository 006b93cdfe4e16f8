"""Writes man pages, and completions for bash, zsh and fish, below a folder of a package: write_help.py FOLDER.

Both are made from the parsers, as docs/cli.md is.
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path

import shtab
from argparse_manpage.manpage import Manpage

from mburst import __version__
from mburst.cli import build_parser

COMPLETIONS = {
    "bash": "usr/share/bash-completion/completions/mburst",
    "zsh": "usr/share/zsh/vendor-completions/_mburst",
    "fish": "usr/share/fish/vendor_completions.d/mburst.fish",
}


def verbs(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    """The parser of each verb, and of what it has beneath it, by the command that is typed."""
    found = {}
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for verb in action.choices.values():
                found |= {verb.prog: verb, **verbs(verb)}
    return found


def man_page(parser: argparse.ArgumentParser) -> str:
    """The page of one command; commands beneath it, which the library adds to it, have pages of their own."""
    about = " ".join((parser.description or "").split()).removeprefix("mburst: ")
    parser.man_short_description = re.split(r"[.:;](?:\s|$)", about)[0]
    data = {"version": __version__, "project_name": "mburst", "manual_title": "User Commands"}
    page = Manpage(parser, _data=data)
    page.prog = parser.prog.replace(" ", "-")  # in the title; the synopsis is as it is typed
    return re.split(r"(?m)^\.SH COMMAND ", str(page))[0]


def write(folder: Path) -> None:
    """All of them."""
    parser = build_parser()
    pages = {"mburst": parser, **verbs(parser)}
    man = folder / "usr/share/man/man1"
    man.mkdir(parents=True)
    for command, inner in pages.items():
        (man / f"{command.replace(' ', '-')}.1").write_text(man_page(inner), encoding="utf-8")
    for shell, name in COMPLETIONS.items():
        (folder / name).parent.mkdir(parents=True)
        (folder / name).write_text(shtab.complete(parser, shell=shell), encoding="utf-8")


if __name__ == "__main__":
    write(Path(sys.argv[1]))
