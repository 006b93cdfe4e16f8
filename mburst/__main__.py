"""Entry of the command line: the one place where an error becomes one line and an exit code."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from typing import NoReturn

from . import ending, interrupting, printing, shortage
from .errors import MburstError
from .names import say


def main(argv: list[str] | None = None) -> int:
    """Run the command line. Exit codes: 0 done, 1 failed, 2 wrong usage, 130 interrupted."""
    from .cli import build_parser, carry_out

    words = sys.argv[1:] if argv is None else argv
    try:
        try:
            code = carry_out(build_parser(*words[:1]).parse_args(words))
        except SystemExit:  # argparse has printed what was asked for, or what is wrong
            sys.stdout.flush()
            raise
        sys.stdout.flush()
        return code
    except BrokenPipeError:  # the reader of our output has gone: `mburst bursts … | head`
        printing.give_up()
        return 0
    except KeyboardInterrupt:
        return _interrupted()
    except Exception as error:
        return _interrupted() if interrupting.heard(error) else _failed(error)


def _interrupted() -> int:
    say("interrupted")
    return 130


def _failed(error: Exception) -> int:
    """The exit code, once one line said what failed. Raises what nobody can act on."""
    found = _refusal(error)
    if found is None:
        raise error
    if isinstance(error, OSError) and error.filename == printing.NAME:
        printing.give_up()
    say(f"{found}" + (f" ({found.hint})" if found.hint else ""))
    return found.exit_code


def _refusal(error: Exception) -> MburstError | None:
    """What to say of ERROR; None where nobody can act on it. Nothing is imported here: that takes files and memory."""
    if isinstance(error, MburstError):
        return error
    if isinstance(error, UnicodeEncodeError):
        return MburstError(
            f"an output in {error.encoding} cannot have {error.object[error.start]!a}", "set PYTHONIOENCODING=utf-8"
        )
    found = shortage.of(error)
    if isinstance(error, FileNotFoundError) and error.filename is None and not _has_folder():
        return MburstError("the current folder was removed", "go to one that exists, or give whole paths")
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
    """The command line in a process of its own."""
    try:
        interrupting.own_process()
        printing.own_process()
        from . import privileges, python

        privileges.own_process()
        python.one_thread_for_products()
        python.without_pandas()
        with suppress(ImportError):  # what cannot be imported is said by the verb that needs it
            python.end_without_memory()
        return main()
    except KeyboardInterrupt:  # before or after what was asked
        return _interrupted()


def entry() -> NoReturn:
    """The program `mburst`."""
    ending.end(command())


if __name__ == "__main__":
    entry()
