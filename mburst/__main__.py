"""Entry of the command line: the one place where an error becomes one line and an exit code."""

from __future__ import annotations

import os
import sys
from errno import EMFILE

from . import interrupting
from .errors import MORE_FILES, MburstError
from .names import say


def main(argv: list[str] | None = None) -> int:
    """Run the command line. Exit codes: 0 done, 1 failed, 2 wrong usage, 130 interrupted."""
    from .cli import build_parser, carry_out

    try:
        code = carry_out(build_parser().parse_args(argv))
        sys.stdout.flush()
        return code
    except MburstError as error:
        return _refused(error)
    except KeyboardInterrupt:
        say("interrupted")
        return 130
    except BrokenPipeError:  # the reader of our output has gone: `mburst bursts … | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except UnicodeEncodeError as error:
        return _refused(MburstError(f"an output in {error.encoding} cannot have {error.object[error.start]!a}",
                                    "set PYTHONIOENCODING=utf-8"))
    except MemoryError:
        say("not enough memory")
        return 1
    except OSError as error:
        hint = MORE_FILES if error.errno == EMFILE else ""
        return _refused(MburstError(f"{error.filename or 'system'}: {error.strerror or error}", hint))
    except Exception as error:
        if interrupting.heard(error):
            say("interrupted")
            return 130
        if short := _shortage(error):
            return _refused(short)
        raise


def _refused(error: MburstError) -> int:
    say(f"{error}" + (f" ({error.hint})" if error.hint else ""))
    return error.exit_code


def _shortage(error: Exception) -> MburstError | None:
    """What the database says that is short of something. Nothing is imported here: that takes files, too."""
    damage = sys.modules.get(f"{__package__}.sql.damage")
    found: MburstError | None = damage.shortage(error) if damage else None
    return found


def command() -> int:
    """The command line in a process of its own."""
    from . import privileges

    privileges.own_process()
    interrupting.own_process()
    return main()


if __name__ == "__main__":
    sys.exit(command())
