"""`mburst fleet`: verbs for a target to which many stores are shipped. Each has a module fleet_NAME.py."""

from __future__ import annotations

import argparse
import importlib
from pathlib import Path

DESCRIPTION = """Examine all stores that `mburst ship` has copied to one target."""
QUESTIONS = ("status", "detect", "ask", "report")


def add_parser(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the verb, with a subcommand for each module."""
    parser = verbs.add_parser("fleet", help="detect the bursts of all hosts that ship", description=DESCRIPTION)
    questions = parser.add_subparsers(title="questions", metavar="QUESTION", dest="question", required=True)
    for name in QUESTIONS:
        importlib.import_module(f".fleet_{name}", __package__).add_parser(questions)


def add_inventory(parser: argparse.ArgumentParser | argparse._ArgumentGroup) -> None:
    """Add the option for the hosts that are expected: the path that fleet.inventory.read_inventory reads."""
    parser.add_argument(
        "--inventory",
        type=Path,
        metavar="FILE",
        help="CSV file of hosts that are expected: columns rack, host, from, until (UTC), service, address",
    )
