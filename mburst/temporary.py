"""Temporary files and folders: they are removed when their work ends, at the latest at the end of the process, also if
a signal falls between any two steps, or ends the process while a thread has them."""

from __future__ import annotations

import atexit
import os
import secrets
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

FIND_S = 2.0  # time in which Python finds the folder of temporary files
_removals: dict[object, tuple[int, Callable[[], object]]] = {}  # with the process that has them


@contextmanager
def removed(remove: Callable[[], object]) -> Iterator[None]:
    """Call REMOVE when the context ends. If an interruption prevents that, or a thread is still in the context, or
    REMOVE returns False because something is left, it is called, possibly again, at the end of the process. It must not
    raise, and must allow that nothing is there."""
    key = object()
    _removals[key] = os.getpid(), remove
    try:
        yield
    finally:
        if remove() is not False:
            del _removals[key]


def place() -> str:
    """Returns the folder of temporary files. Python finds it by making a file there, which an interruption of this
    thread would leave behind: another thread does that, and this one waits for it, interrupted or not (Python 3.11
    takes a thread whose `join` was interrupted as ended). Raises OSError if there is none."""
    import tempfile

    found = threading.Event()

    def find() -> None:
        with suppress(OSError):
            tempfile.gettempdir()
        found.set()

    if tempfile.tempdir is None:
        with removed(lambda: found.wait(FIND_S)):
            try:
                threading.Thread(target=find, name="mburst-temporary").start()
            except RuntimeError:  # no thread can be started
                found.set()
    return tempfile.gettempdir()


@contextmanager
def folder(prefix: str, above: str | os.PathLike[str] | None = None) -> Iterator[str]:
    """Yields a new folder, with a random name after PREFIX, in ABOVE (None: the folder of temporary files). Raises
    OSError if it cannot be made."""
    path = os.path.join(os.path.abspath(above or place()), f"{prefix}{secrets.token_urlsafe(6)}")
    with removed(lambda: _remove_folder(path)):
        os.mkdir(path, 0o700)
        yield path


def _remove_folder(path: str) -> bool:
    """Remove a folder with its content, also what is write-protected. Returns whether nothing is left."""
    import shutil

    shutil.rmtree(path, ignore_errors=True)
    if not os.path.lexists(path):
        return True
    for parent, folders, _ in os.walk(path):
        for name in folders:
            if not os.path.islink(inside := os.path.join(parent, name)):
                with suppress(OSError):
                    os.chmod(inside, 0o700)
    shutil.rmtree(path, ignore_errors=True)
    return not os.path.lexists(path)


def _remove_all() -> None:
    """Remove what is left at the end of the process."""
    for process, remove in list(_removals.values()):
        if process == os.getpid():
            remove()


atexit.register(_remove_all)
