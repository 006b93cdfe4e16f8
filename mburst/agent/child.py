"""A part of `mburst run` in its own process: the usual command line, which ends when its supervisor dies."""

from __future__ import annotations

import ctypes
import os
import signal
import sys

from .. import alive, ending, interrupting, printing, privileges, python
from ..__main__ import main

PR_SET_PDEATHSIG = 1  # prctl(2)

if __name__ == "__main__":
    supervisor = int(sys.argv[1])
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
    if os.getppid() != supervisor:  # it died before the signal was requested
        sys.exit(1)
    interrupting.leave_hangup_to_parent()
    alive.begin()
    printing.own_process()
    privileges.own_process()
    python.without_pandas()
    ending.end(main(sys.argv[2:]))
