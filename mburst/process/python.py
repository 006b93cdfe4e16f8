"""Processes of mburst itself: how it starts Python again, and what it keeps out of a process."""

from __future__ import annotations

import os
import sys
import threading
from typing import TYPE_CHECKING

from ..messages import print_message
from . import shortage

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import ModuleType


def interpreter() -> str:
    """Returns the running Python, for programs that start it themselves, such as Spark."""
    return sys.executable


def command(module: str, *arguments: str) -> list[str]:
    """Returns the command that runs a module of this package: "mburst" itself, or one below it.

    The option -P is needed because `-m` alone puts the current folder first in the import path: a user who can write
    there could run code as the user of mburst.
    """
    return [interpreter(), "-P", "-m", module, *arguments]


class _WithoutPandas:
    """Makes pandas appear as not installed."""

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> None:
        if name == "pandas":
            raise ModuleNotFoundError("pandas is not used here", name=name)


def one_thread_for_products() -> None:
    """Limit numpy's BLAS to one thread, before it is loaded. Its threads spin between small products, and dividing a
    sum among them changes its last digits. A number in the environment takes precedence."""
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


def end_without_memory() -> None:
    """End this process where Python would ignore a lack of memory, wait for a thread that found none, or continue
    without a thread that died of it."""
    from ..capture import end_without_memory

    sys.unraisablehook = end_without_memory
    threading.excepthook = _thread_failed


def _thread_failed(failure: threading.ExceptHookArgs) -> None:
    if failure.exc_value and (found := shortage.of(failure.exc_value)):
        print_message(f"{found} ({found.hint})")
        os._exit(found.exit_code)
    threading.__excepthook__(failure)


def without_pandas() -> None:
    """Prevent this process from importing pandas. pyarrow imports it, if installed, before it converts its first list,
    which takes more time and memory than many verbs. Not for processes of API users."""
    sys.meta_path.insert(0, _WithoutPandas())


def with_pandas() -> None:
    """Undo without_pandas, for a library that asks for it."""
    sys.meta_path[:] = [finder for finder in sys.meta_path if not isinstance(finder, _WithoutPandas)]
