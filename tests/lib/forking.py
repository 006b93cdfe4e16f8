"""Children of a test's process that are no new program."""

from __future__ import annotations

import gc
import os

from mburst.python import without_pandas


def fork() -> int:
    """os.fork(). The child never collects what this process had: libraries may own it whose threads the child lacks.
    It has no pandas but this process's: each child would import it anew."""
    gc.freeze()
    child = os.fork()
    if child:
        gc.unfreeze()
    else:
        without_pandas()
    return child
