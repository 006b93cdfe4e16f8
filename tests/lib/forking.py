"""Children of a test's process that do not run a new program."""

from __future__ import annotations

import gc
import os
import signal
import traceback
from collections.abc import Callable

from waiting import LIMIT_S

from mburst.process.python import without_pandas


def _fork() -> int:
    """Like os.fork(). The child never collects objects of this process: they may belong to libraries whose threads the
    child does not have. The child can use pandas only if this process imported it: otherwise each child would import it
    again."""
    gc.freeze()
    child = os.fork()
    if child:
        gc.unfreeze()
    else:
        without_pandas()
    return child


def end_if_it_hangs() -> None:
    """Ends this fork by SIGALRM after LIMIT_S, even if it is in a library: a lock that a thread had when the process
    was forked is never released."""
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_REAL, LIMIT_S)


def exit_code_of(work: Callable[[], object]) -> int:
    """Returns the exit code of a fork that does WORK: 0 if that returns, 1 after an exception, whose traceback is
    printed; otherwise what ended it. Fails if it hangs."""
    if (child := _fork()) == 0:
        try:
            end_if_it_hangs()
            work()
            os._exit(0)
        except BaseException:
            traceback.print_exc()
            os._exit(1)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert code != -signal.SIGALRM, f"the fork did not end within {LIMIT_S:g} s"
    return code
