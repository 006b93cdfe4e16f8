"""Evidence of the ledger: which account the tail's excess lies in, and how sure that is."""

from __future__ import annotations

import numpy as np

from .evidence import Evidence
from .ledger import ACCOUNTS, BURSTS, HOST, Ledger
from .port import Wait
from .stats import Estimate, block_bootstrap
from .tail import episodes

ROUNDS = 1000  # of the bootstrap


def account(evidence: Evidence, n: int, rng: np.random.Generator) -> None:
    """Shares of the tail's excess, with intervals from resampling whole latency episodes."""
    ledger, tail = evidence.ledger, evidence.tail
    late = np.zeros(n, dtype=bool)
    late[ledger.late] = True
    number = episodes(late, np.isfinite(evidence.delays.total) | late)[ledger.late]
    count = int(number.max()) + 1 if len(number) else 0
    sums = np.zeros((count, len(ACCOUNTS)))
    np.add.at(sums, number, ledger.accounts)
    evidence.episodes = count
    evidence.burst_episodes = int((sums[:, BURSTS] > sums.sum(axis=1) / 2).sum())
    total = float(sums.sum())
    for k, name in enumerate(ACCOUNTS):
        columns = np.column_stack((sums[:, k], sums.sum(axis=1)))
        low, high = block_bootstrap(columns, lambda rows: rows[:, 0] / rows[:, 1], ROUNDS, rng)
        evidence.shares[name] = Estimate(float(sums[:, k].sum()) / total if total else 0.0, low, high, count)
    evidence.stage_shares = {stage: float(part.sum()) / total for stage, part in ledger.stages.items()} if total else {}
    hosts_seen = any(np.isfinite(evidence.delays.stages[stage]).any() for stage in ("send", "turn", "receive"))
    if hosts_seen and total and tail.spikes.any():
        evidence.host_share = evidence.shares[ACCOUNTS[HOST]]


def main_port(ledger: Ledger, ports: int) -> int:
    """The port in front of which late probes waited most while it was full; the first of several that are equal."""
    explained = np.zeros(ports)
    for entry in ledger.entries:
        here = entry.rows[entry.answers == Wait.BUSY]
        explained[entry.crossing] += float(ledger.stages[entry.stage][here].sum())
    return int(np.argmax(explained))
