"""Children of a test's process that do not run a new program."""

from __future__ import annotations

import gc
import os

from mburst.python import without_pandas


def fork() -> int:
    """Like os.fork(). The child never collects objects of this process: they may belong to libraries whose threads the
    child does not have. The child can use pandas only if this process imported it: otherwise each child would import it
    anew."""
    gc.freeze()
    child = os.fork()
    if child:
        gc.unfreeze()
    else:
        without_pandas()
    return child
