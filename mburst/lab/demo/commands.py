"""The commands of a demo: shown as a user would type them, and run."""

from __future__ import annotations

import contextlib
import io
import shlex


class CommandFailed(Exception):
    """A command ended with an exit code other than 0, and has printed why."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


def show(words: list[str]) -> None:
    """Show a command."""
    print(f"\n$ {shlex.join(words)}", flush=True)


def call(words: list[str]) -> None:
    """Show and run a command of mburst. Raises CommandFailed."""
    show(["mburst", *words])
    _run(words)


def heard(words: list[str]) -> str:
    """Show and run a command of mburst, and return its output instead of showing it. Raises CommandFailed."""
    show(["mburst", *words])
    with contextlib.redirect_stdout(io.StringIO()) as output:
        _run(words)
    return output.getvalue()


def _run(words: list[str]) -> None:
    from ...__main__ import main
    from ...process import privileges

    with privileges.shared_process():
        code = main(words)
    if code:
        raise CommandFailed(code)
