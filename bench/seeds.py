"""The options of a benchmark over simulated cases: its kinds, and the seeds of each."""

from __future__ import annotations

import argparse


def arguments(description: str | None, seeds: int) -> argparse.Namespace:
    """Parses the command line. seeds: the default number for each kind."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--seeds", type=int, default=seeds, help="of each kind (default: %(default)s)")
    parser.add_argument("--first", type=int, default=0, help="the first seed (default: %(default)s)")
    parser.add_argument("--kinds", nargs="*", help="only these (default: all)")
    parser.add_argument("--explain", action="store_true", help="print every wrong answer and its case")
    return parser.parse_args()


def of(arguments: argparse.Namespace) -> range:
    """Returns the seeds of each kind."""
    return range(arguments.first, arguments.first + arguments.seeds)
