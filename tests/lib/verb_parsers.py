"""The parsers of the command line, by the command that each is of."""

from __future__ import annotations

import argparse

from mburst.cli import build_parser


def parsers() -> dict[str, argparse.ArgumentParser]:
    parser = build_parser()
    [choices] = [action.choices for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
    return {"mburst": parser, **{f"mburst {name}": verb for name, verb in choices.items()}}
