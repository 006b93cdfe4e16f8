"""Detects that a store is no longer where it was opened.

A process that goes on after its store was moved or replaced stores rows that nobody finds, or never reads any more
rows: the files that it may read and write (mburst/process/landlock.py) are bound to the folder itself."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from errno import ENOENT
from pathlib import Path

from ..errors import MburstError
from .disk import failing_as_one_line, hint

LOOK_S = 1.0


class StorePlace:
    """The path of a store and, while it is `watched`, the folder that was there when watching began."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._folder: int | None = None  # kept open, since the number of a removed folder may be reused
        self._lost = ""  # how it was lost
        self._lock = threading.Lock()

    def is_lost(self) -> bool:
        """Whether the folder was moved, removed or replaced since watching began; False if nobody watches it."""
        with self._lock:
            if self._folder is not None and not self._lost:
                self._lost = self._look(self._folder)
        return bool(self._lost)

    def check(self) -> None:
        """Raises MburstError if the folder is lost."""
        if self.is_lost():
            raise MburstError(f"{self._path}: {self._lost}", hint(ENOENT))

    def explains(self, failure: BaseException) -> bool:
        """Whether the folder is lost, which explains FAILURE. What is in a folder is removed before the folder: after
        "No such file or directory", looks once more LOOK_S later."""
        if self._folder is not None and not self.is_lost() and _is_of_missing_file(failure):
            time.sleep(LOOK_S)
        return self.is_lost()

    def check_after(self, failure: BaseException) -> None:
        """Raises MburstError if the loss of the folder explains FAILURE."""
        if self.explains(failure):
            self.check()

    @contextmanager
    def watched(self, stop: Callable[[], object]) -> Iterator[None]:
        """STOP is called, in a thread, within LOOK_S after the folder is lost. In that case raises MburstError at the
        end, in place of the failure that this caused. For one caller at a time."""
        with failing_as_one_line(self._path, "read"):
            self._folder = folder = os.open(self._path, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        over = threading.Event()
        thread = threading.Thread(target=self._watch, args=(over, stop), name="mburst-place", daemon=True)
        try:
            thread.start()
            try:
                yield
            except (MburstError, OSError) as failure:
                self.check_after(failure)
                raise
            self.check()
        finally:
            over.set()
            if thread.ident is not None:
                thread.join()
            with self._lock:
                self._folder = None
            os.close(folder)

    def _watch(self, over: threading.Event, stop: Callable[[], object]) -> None:
        while not over.wait(LOOK_S):
            if self.is_lost():
                stop()
                return

    def _look(self, folder: int) -> str:
        """How the folder is lost; '' if it is not."""
        try:
            is_same = os.path.samestat(os.stat(self._path), os.fstat(folder))
        except (FileNotFoundError, NotADirectoryError) as error:
            return str(error.strerror)
        except OSError:  # the folder may still be there
            return ""
        return "" if is_same else "another folder than the one that was opened"


def _is_of_missing_file(failure: BaseException | None) -> bool:
    return failure is not None and (isinstance(failure, FileNotFoundError) or _is_of_missing_file(failure.__cause__))
