"""Evidence on the other ports of the path: which of them may have queued in place of the one that explains most.

A port whose traffic fills the next one is full together with it, so which of the two queued is not seen in what they
carried. Each port that was full while probes waited is therefore examined as the main one is.
"""

from __future__ import annotations

import numpy as np

from ..ledger import SMALL, WaitLedger
from ..port import Port
from ..scene import Evidence


def full_share(ledger: WaitLedger, number: int, port: Port) -> float:
    """Returns the share of the excess that was spent in stages with the queue of the port with that NUMBER, from the
    begin of a wait on for as long as that port stayed full."""
    spent, total = 0.0, float(ledger.excess.sum())
    for entry in ledger.entries:
        if entry.crossing == number:
            left = np.nan_to_num(port.busy_after(entry.arrival))
            part = np.minimum(left / np.maximum(entry.departure - entry.arrival, 1.0), 1.0)
            spent += float(part @ ledger.stages[entry.stage][entry.rows])
    return spent / total if total else 0.0


def full_too(evidence: Evidence, number: int, ports: list[Port]) -> list[int]:
    """Returns the other PORTS, by their numbers, that were full for more than a small part of the excess."""
    shares = [full_share(evidence.ledger, other, port) for other, port in enumerate(ports)]
    return [other for other, share in enumerate(shares) if other != number and share > SMALL]
