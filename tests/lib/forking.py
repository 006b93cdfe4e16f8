"""Children of a test's process that are no new program."""

from __future__ import annotations

import gc
import os


def fork() -> int:
    """os.fork(). The child never collects what this process had: libraries may own it whose threads the child lacks."""
    gc.freeze()
    child = os.fork()
    if child:
        gc.unfreeze()
    return child
