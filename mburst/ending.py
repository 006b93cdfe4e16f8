"""How a command ends: as Python does, but without tearing down what was imported, which takes 50 to 250 ms."""

from __future__ import annotations

import atexit
import os
import sys
import threading
from contextlib import suppress
from typing import NoReturn

from . import interrupting


def end(code: int) -> NoReturn:
    """End this process with CODE, once its threads have ended (but for daemons), its functions of atexit have run, its
    databases are closed, which removes what they put on the disk, and what was printed is out. For a process that is
    this package's alone. The order is that of Python's multiprocessing, whose processes end so, too."""
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    interrupting.close_all()
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):  # a verb's output is out already: this is what came behind it
            stream.flush()
    os._exit(code)
