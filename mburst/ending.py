"""The end of a command: as in Python, but without tearing down the imported modules, which takes 50 to 250 ms."""

from __future__ import annotations

import atexit
import os
import sys
import threading
from contextlib import suppress
from typing import NoReturn

from . import interrupting


def end(code: int) -> NoReturn:
    """End this process with CODE, after its threads (except daemons) have ended, its atexit functions have run, its
    databases are closed, so that their temporary files are removed, and its output is written. Only for mburst's own
    process. The order is that of Python's multiprocessing, whose processes end in the same way."""
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    interrupting.close_all()
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):  # the verb's output is already written: this is what followed
            stream.flush()
    os._exit(code)
