"""Removes a rack as soon as its owner releases it: `python -m mburst.lab.rack.janitor RACK SECONDS`.

The owner holds the other end of standard input. However the owner ends (return, exception, signal, kill -9), the kernel
closes that end, so there is only one way of removal. After SECONDS the rack is removed even if the owner hangs.
"""

from __future__ import annotations

import select
import signal
import sys

from .namespaces import remove


def main() -> None:
    rack, limit_s = sys.argv[1], float(sys.argv[2])
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    select.select([sys.stdin], [], [], limit_s)
    remove(rack)


if __name__ == "__main__":
    main()
