"""How this package starts itself again, as a process of its own."""

from __future__ import annotations

import sys


def command(module: str, *arguments: str) -> list[str]:
    """The command that runs a module of this package: "mburst" itself, or one below it.

    -P, since `-m` alone puts the current folder first among those that are imported from: whoever can write there
    would have code of his run as whoever runs mburst.
    """
    return [sys.executable, "-P", "-m", module, *arguments]
