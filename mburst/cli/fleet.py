"""`mburst fleet`: what is asked of a target that many stores are shipped to. One module a question: fleet_NAME.py."""

from __future__ import annotations

import argparse
import importlib

DESCRIPTION = """Ask about all stores that `mburst ship` has copied to one target."""
QUESTIONS = ("status", "detect", "ask", "report")


def add_parser(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Adds the verb, and each question as a verb of its own."""
    parser = verbs.add_parser("fleet", help="detect bursts of all hosts that ship", description=DESCRIPTION)
    questions = parser.add_subparsers(title="questions", metavar="QUESTION", dest="question", required=True)
    for name in QUESTIONS:
        importlib.import_module(f".fleet_{name}", __package__).add_parser(questions)
