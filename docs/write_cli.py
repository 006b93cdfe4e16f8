"""Writes docs/cli.md from the help texts: make docs. tests/cli/test_cli_docs.py holds the file to them."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from mburst.cli import build_parser

PAGE = Path(__file__).parent / "cli.md"
COLUMNS = "100"

HEAD = """# The command line

This page has the help text of each verb (`mburst VERB --help`); `make docs` writes it.

Numbers take units: times `10us`, `1.5ms`, `60s`, `24h`, `7d`; rates `100M`, `25G`, `1Gbps`; shares `0.5`, `50%`. Times
of day are ISO 8601, in UTC unless they have an offset.

Exit codes:

- 0: done
- 1: failed (one line on stderr states the reason and the remedy), or answered without damaged files (a line on stderr
  for each states what is missing)
- 2: wrong usage
- 130: interrupted by Ctrl-C, SIGTERM or SIGHUP (its terminal was closed); no temporary file is left

A verb that runs until a signal ends with 130 by Ctrl-C, and with 0 by SIGTERM or SIGHUP. `nohup` makes every verb
ignore SIGHUP. A pipe whose reader is gone, as in `mburst bursts store | head`, is no failure: a long list ends, all
other work goes on, and the exit code is that of the work.
"""


def verbs(title: str, parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    """The parser of TITLE and of each verb beneath it, in the order of its help."""
    found = {title: parser}
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for name, verb in action.choices.items():
                found |= verbs(f"{title} {name}", verb)
    return found


def page() -> str:
    """The text of docs/cli.md."""
    os.environ["COLUMNS"] = COLUMNS  # the width that argparse takes
    return "\n".join([HEAD, *(section(title, parser) for title, parser in verbs("mburst", build_parser()).items())])


def section(title: str, parser: argparse.ArgumentParser) -> str:
    """A heading and a help text as it is."""
    return f"## {title}\n\n```text\n{parser.format_help().strip()}\n```\n"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
