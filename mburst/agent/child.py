"""A part of `mburst run` in its own process: the usual command line, which ends when its supervisor dies.

Exit codes are those of the command line, except that a signal that ended the work cleanly is 128 and its number:
a verb that SIGTERM ends exits with 0, as one that is done, or with 130 if it had not begun, as after Ctrl-C. The
supervisor restarts those that a signal ended."""

from __future__ import annotations

import ctypes
import os
import signal
import sys

from ..__main__ import main
from ..process import alive, ending, interrupting, printing, privileges, python

PR_SET_PDEATHSIG = 1  # prctl(2)


def run(words: list[str]) -> int:
    """Run the command line as mburst.__main__ does, and return its exit code."""
    interrupting.own_process(ending.give_up)
    alive.begin()
    printing.own_process()
    privileges.own_process()
    python.without_pandas()
    return main(words)


if __name__ == "__main__":
    supervisor = int(sys.argv[1])
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
    if os.getppid() != supervisor:  # it died before the signal was requested
        sys.exit(1)
    interrupting.leave_hangup_to_parent()
    try:
        code = run(sys.argv[2:])
    except KeyboardInterrupt:  # before or after the verb
        code = interrupting.INTERRUPTED
    ending.end(
        128 + interrupting.arrived[0] if code in (0, interrupting.INTERRUPTED) and interrupting.arrived else code
    )
