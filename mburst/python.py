"""Processes that are this package's alone: how it starts itself again, and what it keeps out of them."""

from __future__ import annotations

import os
import sys
import threading
from typing import TYPE_CHECKING

from . import shortage
from .names import say

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import ModuleType


def interpreter() -> str:
    """The Python that runs here, for what starts it by itself, such as Spark."""
    return sys.executable


def command(module: str, *arguments: str) -> list[str]:
    """The command that runs a module of this package: "mburst" itself, or one below it.

    -P, since `-m` alone puts the current folder first among those that are imported from: whoever can write there
    would have code of his run as whoever runs mburst.
    """
    return [interpreter(), "-P", "-m", module, *arguments]


class _WithoutPandas:
    """Says that there is no pandas."""

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> None:
        if name == "pandas":
            raise ModuleNotFoundError("pandas is not used here", name=name)


def one_thread_for_products() -> None:
    """Have numpy's BLAS, once it is loaded, start no threads: they spin between products as small as ours, and how a
    sum is divided among them changes its last digits. A number that is set in the environment stays."""
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


def end_without_memory() -> None:
    """Have this process end where Python would ignore that there is no memory, wait for a thread that found none, or go
    on without one that died of it."""
    from .capture import end_without_memory

    sys.unraisablehook = end_without_memory
    threading.excepthook = _thread_failed


def _thread_failed(failure: threading.ExceptHookArgs) -> None:
    if failure.exc_value and (found := shortage.of(failure.exc_value)):
        say(f"{found} ({found.hint})")
        os._exit(found.exit_code)
    threading.__excepthook__(failure)


def without_pandas() -> None:
    """Have this process not import pandas. Before pyarrow converts its first list it imports pandas where that is
    installed, which takes more time and memory than many a verb. Not for processes of those who call the API."""
    sys.meta_path.insert(0, _WithoutPandas())


def with_pandas() -> None:
    """Undo without_pandas, for a library that asks for it."""
    sys.meta_path[:] = [finder for finder in sys.meta_path if not isinstance(finder, _WithoutPandas)]
