"""Entry of the command line: the one place where an error becomes one line and an exit code."""

from __future__ import annotations

import os
import sys

from . import interrupting
from .errors import MburstError
from .names import say


def main(argv: list[str] | None = None) -> int:
    """Run the command line. Exit codes: 0 done, 1 failed, 2 wrong usage, 130 interrupted."""
    from .cli import build_parser, carry_out

    words = sys.argv[1:] if argv is None else argv
    try:
        code = carry_out(build_parser(*words[:1]).parse_args(words))
        sys.stdout.flush()
        return code
    except BrokenPipeError:  # the reader of our output has gone: `mburst bursts … | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt:
        return _interrupted()
    except Exception as error:
        return _interrupted() if interrupting.heard() else _failed(error)


def _interrupted() -> int:
    say("interrupted")
    return 130


def _failed(error: Exception) -> int:
    """The exit code, once one line said what failed. Raises what nobody can act on."""
    if isinstance(error, MburstError):
        say(f"{error}" + (f" ({error.hint})" if error.hint else ""))
        return error.exit_code
    if isinstance(error, MemoryError):
        say("not enough memory")
        return 1
    if isinstance(error, OSError):
        say(f"{error.filename or 'system'}: {error.strerror or error}")
        return 1
    raise error


def command() -> int:
    """The command line in a process of its own."""
    try:
        interrupting.own_process()
        from . import privileges

        privileges.own_process()
        return main()
    except KeyboardInterrupt:  # before or after what was asked
        return _interrupted()


if __name__ == "__main__":
    sys.exit(command())
