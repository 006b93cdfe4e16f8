"""Follows the bins of a store: reader.py STORE. Prints "follows", and, when its input has ended and no more rows
arrive, the number of bins and packets."""

import selectors
import sys
import time
from pathlib import Path

from mburst.sql.follow import TableFollower

tail, bins, packets = TableFollower(Path(sys.argv[1]), "bins"), 0, 0
print("follows", flush=True)
ended, silent_since = False, 0.0
waiting = selectors.DefaultSelector()
waiting.register(sys.stdin, selectors.EVENT_READ)
while not ended or time.monotonic() - silent_since < 3:
    ended = ended or (bool(waiting.select(0)) and not sys.stdin.read(1))
    for rows in tail.poll():
        bins += rows.num_rows
        packets += sum(rows.column("packets").to_pylist())
        silent_since = time.monotonic()
    silent_since = silent_since or time.monotonic()
    time.sleep(0.01)
print(bins, packets)
