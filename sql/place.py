"""Whether a store is still where it was opened.

Who works on after it was moved or replaced stores rows that nobody finds, or reads none for good: what a process may
read and write (mburst/landlock.py) is bound to the folder itself."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from errno import ENOENT
from pathlib import Path

from ..errors import MburstError
from .disk import failing_as_one_line, hint

LOOK_S = 1.0


class StorePlace:
    """The path of a store, and, while it is `watched`, the folder that was there when that began."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._folder: int | None = None  # held open: the number of a folder that was removed may be another's
        self._lost = ""  # how
        self._lock = threading.Lock()

    def is_lost(self) -> bool:
        """Whether the folder was moved, removed or replaced since it is watched; False where nobody watches it."""
        with self._lock:
            if self._folder is not None and not self._lost:
                self._lost = self._look(self._folder)
        return bool(self._lost)

    def check(self) -> None:
        """Raises MburstError where it is lost."""
        if self.is_lost():
            raise MburstError(f"{self._path}: {self._lost}", hint(ENOENT))

    @contextmanager
    def watched(self, stop: Callable[[], object]) -> Iterator[None]:
        """STOP is called, in a thread, within LOOK_S from when the folder is lost. Raises MburstError in the end where
        it is, in place of what failed for that. For one at a time."""
        with failing_as_one_line(self._path, "read"):
            self._folder = folder = os.open(self._path, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        over = threading.Event()
        thread = threading.Thread(target=self._watch, args=(over, stop), name="mburst-place", daemon=True)
        try:
            thread.start()
            try:
                yield
            except (MburstError, OSError):
                self.check()
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
        """How the folder is lost; '' where it is not."""
        try:
            is_same = os.path.samestat(os.stat(self._path), os.fstat(folder))
        except (FileNotFoundError, NotADirectoryError) as error:
            return str(error.strerror)
        except OSError:  # it may be there
            return ""
        return "" if is_same else "another folder than the one that was opened"
