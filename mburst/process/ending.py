"""The end of a command: as in Python, but without tearing down the imported modules, which takes 50 to 250 ms."""

from __future__ import annotations

import atexit
import os
import threading
from typing import NoReturn

from ..messages import print_message
from . import interrupting, printing


def end(code: int) -> NoReturn:
    """End this process with CODE, after its threads (except daemons) have ended, its atexit functions have run, its
    databases are closed, so that their temporary files are removed, and its output is written. Only for mburst's own
    process. The order is that of Python's multiprocessing, whose processes end in the same way. A signal ends the wait
    for threads."""
    interrupting.call_instead(lambda: _finish(code))
    threading._shutdown()  # type: ignore[attr-defined]
    _finish(code)


def give_up() -> NoReturn:
    """End an interrupted process without its threads, and without what it has not yet cleaned up except temporary
    files."""
    interrupting.call_instead(lambda: os._exit(interrupting.INTERRUPTED))  # if nobody reads the message
    print_message("interrupted")
    _finish(interrupting.INTERRUPTED)


def _finish(code: int) -> NoReturn:
    """The part of `end` that waits for nobody. A signal ends it."""
    interrupting.call_instead(lambda: os._exit(code))
    atexit._run_exitfuncs()
    interrupting.close_all()
    os._exit(code if printing.finish() else code or 1)
