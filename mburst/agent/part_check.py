"""Checks of the files that a part names, as the part would read them, before it is started in place of another."""

from __future__ import annotations

import argparse
import os
import subprocess
from collections.abc import Mapping

from ..errors import MburstError, UnresolvedName, UsageError
from ..names import MOST_REASON, short, shown
from ..process.python import command
from .config import RunPart, naming_part

CHECK_S = 20.0  # time for the check of one part


def check_files(part: RunPart, environment: Mapping[str, str]) -> None:
    """Check what the command line of a part names, with the part's own checks and the ENVIRONMENT of its process.
    Raises UsageError for an invalid file, and MburstError for a file that is missing or cannot be read. A name without
    an address is not an error of a file: the part reports it, and is restarted until it has one."""
    from ..cli import build_parser

    with naming_part(part):
        parser = build_parser(part.argv[0])
        arguments = parser.parse_args(part.argv)
        if hasattr(arguments, "as_part"):  # not the schedule, whose files are those of the configuration
            _as_part(arguments)
        if hasattr(arguments, "check"):  # the verb has a check of its own: in a process, because of its libraries
            _ask(part, environment)


def _as_part(arguments: argparse.Namespace) -> None:
    try:
        arguments.as_part(arguments)
    except UnresolvedName:
        pass
    except OSError as error:
        raise MburstError(f"{shown(str(error.filename or 'a file'))}: cannot read: {error.strerror}") from error


def _ask(part: RunPart, environment: Mapping[str, str]) -> None:
    verb, *rest = part.argv
    # As a part, it ends with this process.
    call = command("mburst.agent.child", str(os.getpid()), verb, "--check", *rest)
    try:
        done = subprocess.run(
            call, env=dict(environment), stdin=subprocess.DEVNULL, capture_output=True, timeout=CHECK_S
        )
    except subprocess.TimeoutExpired:
        raise MburstError(f"its check took longer than {CHECK_S:g} s") from None
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip().splitlines()
        reason = short(said[-1].removeprefix("mburst: "), MOST_REASON) if said else "no reason given"
        raise (UsageError if done.returncode == 2 else MburstError)(reason)
