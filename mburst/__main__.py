"""The entry of the command line: the one place that turns an error into one line and an exit code."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from typing import NoReturn

from .errors import MburstError
from .messages import print_message
from .process import ending, interrupting, printing, shortage


def main(argv: list[str] | None = None) -> int:
    """Run the command line. Exit codes: 0 done, 1 failed, 2 wrong usage, 130 interrupted."""
    from .cli import build_parser, carry_out

    words = sys.argv[1:] if argv is None else argv
    try:
        try:
            code = carry_out(build_parser(*words[:1]).parse_args(words))
        except SystemExit:  # argparse has printed what was asked for, or the error
            printing.write_all()
            raise
        printing.write_all()
        return code
    except KeyboardInterrupt:
        return _interrupted()
    except Exception as error:
        return _interrupted() if interrupting.heard(error) else _failed(error)


def _interrupted() -> int:
    with suppress(OSError):  # the terminal was closed
        print_message("interrupted")
    return interrupting.INTERRUPTED


def _failed(error: Exception) -> int:
    """Print one line about a failure, and return the exit code. Raises ERROR again if a user cannot act on it."""
    found = _refusal(error)
    if found is None:
        raise error
    if isinstance(error, OSError) and error.filename == printing.NAME:
        printing.give_up()
    print_message(f"{found}" + (f" ({found.hint})" if found.hint else ""))
    return found.exit_code


def _refusal(error: Exception) -> MburstError | None:
    """Returns the message for ERROR, None if a user cannot act on it. Imports nothing, because that takes files and
    memory."""
    if isinstance(error, MburstError):
        return error
    if isinstance(error, UnicodeEncodeError):
        return MburstError(
            f"an output in {error.encoding} cannot have {error.object[error.start]!a}", "set PYTHONIOENCODING=utf-8"
        )
    found = shortage.of(error)
    if isinstance(error, FileNotFoundError) and error.filename is None and not _has_folder():
        return MburstError("the current folder was removed", "go to one that exists, or give whole paths")
    if isinstance(error, OSError) and error.filename is None and "temporary directory" in str(error):
        return MburstError(f"temporary files: {error.strerror}", "set TMPDIR to a folder that can be written to")
    if isinstance(error, OSError):
        return MburstError(f"{error.filename or 'system'}: {error.strerror or error}", found.hint if found else "")
    return found


def _has_folder() -> bool:
    """Whether the current folder exists."""
    try:
        return bool(os.getcwd())
    except FileNotFoundError:
        return False


def command() -> int:
    """Run the command line in its own process."""
    try:
        interrupting.own_process(ending.give_up)
        printing.own_process()
        from .process import privileges, python

        privileges.own_process()
        python.one_thread_for_products()
        python.without_pandas()
        with suppress(ImportError):  # the verb that needs a module reports that it is missing
            python.end_without_memory()
        return main()
    except KeyboardInterrupt:  # before or after the verb
        return _interrupted()


def entry() -> NoReturn:
    """Run the program `mburst`."""
    try:
        ending.end(command())
    except KeyboardInterrupt:  # just before the end
        ending.end(_interrupted())


if __name__ == "__main__":
    entry()
