"""Evidence of the ledger: the account that holds the tail's excess, with intervals."""

from __future__ import annotations

import numpy as np

from ...model.stats import Estimate, Floats, Whole, interval_with_unseen
from ..ledger import ACCOUNTS, BURSTS, HOST, WaitLedger
from ..port import Wait
from ..scene import Evidence
from ..tail import episodes

MOST = 0.5


def share_of_excess(evidence: Evidence, part: Floats, sent: Floats) -> Estimate:
    """Returns the share of the excess that PART, a part of each late probe's excess (ns), makes up, with an interval
    from blocks of time that cut no episode. sent: the send time of each probe, ns."""
    number, first = episodes_of(evidence)
    whole: Floats = np.bincount(number, evidence.ledger.accounts.sum(axis=1), len(first)).astype(float)
    parts: Floats = np.bincount(number, part, len(first)).astype(float)
    total = float(whole.sum())
    low, high = interval_with_unseen(parts, whole, sent[first])
    return Estimate(float(parts.sum()) / total if total else 0.0, low, high, len(first))


def account(evidence: Evidence, sent: Floats) -> None:
    """Add the accounts' shares of the tail's excess, with intervals from blocks of time that cut no episode. sent: the
    send time of each probe, ns."""
    ledger, tail = evidence.ledger, evidence.tail
    number, first = episodes_of(evidence)
    count = len(first)
    sums = np.zeros((count, len(ACCOUNTS)))
    np.add.at(sums, number, ledger.accounts)
    evidence.episodes = count
    evidence.burst_episodes = int((sums[:, BURSTS] > MOST * sums.sum(axis=1)).sum())
    total = float(sums.sum())
    for k, name in enumerate(ACCOUNTS):
        evidence.shares[name] = share_of_excess(evidence, ledger.accounts[:, k], sent)
        evidence.places[name] = {
            stage: float(spent[k]) / total for stage, spent in ledger.booked.items() if spent[k] > 0
        }
    evidence.stage_shares = {stage: float(part.sum()) / total for stage, part in ledger.stages.items()} if total else {}
    hosts_seen = any(np.isfinite(evidence.delays.stages[stage]).any() for stage in ("send", "turn", "receive"))
    if hosts_seen and total and tail.spikes.any():
        evidence.host_share = evidence.shares[ACCOUNTS[HOST]]


def episodes_of(evidence: Evidence) -> tuple[Whole, Whole]:
    """Returns the episode of each late probe, and the first probe of each episode. Probes that waited behind a repeated
    segment belong to its episode, however many probes of other connections were on time in between."""
    rows, behind = evidence.ledger.late, evidence.repeats.behind
    late = np.zeros(len(behind), dtype=bool)
    late[rows] = True
    number = episodes(late, np.isfinite(evidence.delays.total) | late)
    held = np.flatnonzero(behind >= 0)
    number[held] = number[behind[held]]
    _, first, kept = np.unique(number[rows], return_index=True, return_inverse=True)
    return kept, rows[first]


def main_port(ledger: WaitLedger, ports: int) -> int:
    """Returns the port in front of which late probes waited most while it was full; the first of several equal ones."""
    explained = np.zeros(ports)
    for entry in ledger.entries:
        here = entry.rows[entry.answers == Wait.BUSY]
        explained[entry.crossing] += float(ledger.stages[entry.stage][here].sum())
    return int(np.argmax(explained))
