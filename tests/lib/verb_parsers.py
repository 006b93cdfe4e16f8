"""The parsers of the command line, by their command."""

from __future__ import annotations

import argparse

from mburst.cli import build_parser


def parsers() -> dict[str, argparse.ArgumentParser]:
    """Returns the parsers of verbs and of their subcommands, such as `mburst fleet status`."""
    return _with_its_own("mburst", build_parser())


def _with_its_own(title: str, parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    found = {title: parser}
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for name, inner in action.choices.items():
                found |= _with_its_own(f"{title} {name}", inner)
    return found
