"""The command line: one file a verb. Each module here has

- `add_parser(verbs)`: adds the verb's parser, and sets its `run` default;
- `run(arguments) -> int`: does the work and returns the exit code; raises MburstError.
"""

from __future__ import annotations

import argparse
import importlib
from typing import NoReturn

from ..errors import UsageError

VERBS = ["record", "probe", "reflect", "collect", "switch_agent", "doctor", "import_", "bursts", "sql", "live",
         "report", "schedule", "run", "metrics", "investigate", "what_if", "compare", "check", "repair",
         "migrate", "demo"]


class Parser(argparse.ArgumentParser):
    """Raises UsageError for a wrong call, which is one line then; argparse writes the usage before it, and exits."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(message, f"`{self.prog} --help` tells what it takes")


def build_parser() -> argparse.ArgumentParser:
    """The parser of the whole command. Raises UsageError when it parses a wrong call."""
    from .. import __doc__ as about
    from .. import __version__

    parser = Parser(prog="mburst", description=about, epilog="Start with `mburst demo`.")
    parser.add_argument("--version", action="version", version=f"mburst {__version__}")
    verbs = parser.add_subparsers(title="verbs", metavar="VERB", required=True)
    for name in VERBS:
        importlib.import_module(f".{name}", __name__).add_parser(verbs)
    return parser
