"""The status of the hosts that ship to a target: until when nothing is missing, and which hosts are silent."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

from ..units import format_duration
from . import DETECTED
from .plan import DAY_NS, NEAR_NS
from .receipts import DamagedReceipt, Receipt, ReceiptName, list_receipts, newest_receipt
from .ship import BEAT_NS
from .target import FleetTarget

INTERVALS = 2  # number of shipping intervals by which a host may be behind
AHEAD_NS = 600 * 10**9  # longest time by which a host's clock may be ahead; beyond it, its watermark is meaningless
WHOLE_DAY_NS = DAY_NS + NEAR_NS  # age of a day at which its bursts begin to be shipped, for levels that ship bursts
_THREADS = 16  # threads that read receipts


class HostStatus(NamedTuple):
    """A host that has shipped, by its newest receipt. Times are Unix nanoseconds; `behind_ns` is the time since
    until_ns. `silent` is the reason why the host counts as silent, or ''."""

    rack: str
    host: str
    level: str
    tables: tuple[str, ...]
    until_ns: int
    behind_ns: int
    written_ns: int
    receipts: int
    missing: tuple[str, ...]
    silent: str


def status(
    target: FleetTarget,
    rack: str | None = None,
    now_ns: int | None = None,
    damaged: Callable[[DamagedReceipt], None] = lambda _: None,
) -> list[HostStatus]:
    """Returns every host that has shipped to TARGET, of RACK or of all racks, by rack and name, from its newest intact
    receipt. DAMAGED is called with each damaged receipt. Raises TargetError."""
    now = time.time_ns() if now_ns is None else now_ns
    names: dict[tuple[str, str], list[ReceiptName]] = {}
    for name in list_receipts(target, rack):
        names.setdefault((name.rack, name.host), []).append(name)
    with ThreadPoolExecutor(_THREADS) as pool:
        found = list(pool.map(lambda of: newest_receipt(target, of, damaged), names.values()))
    return sorted(
        _status(receipt, len(of), now) for receipt, of in zip(found, names.values(), strict=True) if receipt is not None
    )


def _status(receipt: Receipt, count: int, now_ns: int) -> HostStatus:
    behind, most = now_ns - receipt.until_ns, INTERVALS * (receipt.every_ns or BEAT_NS)
    unheard = now_ns - receipt.written_ns
    silent = ""
    if unheard < -AHEAD_NS:
        silent = f"its clock is {format_duration(-unheard)} ahead"
    elif unheard > most:
        silent = f"no receipt for {format_duration(unheard)}"
    elif behind > most + (WHOLE_DAY_NS if receipt.level in DETECTED else 0):
        silent = f"nothing new for {format_duration(behind)}"
    return HostStatus(
        receipt.rack,
        receipt.host,
        receipt.level,
        receipt.tables,
        receipt.until_ns,
        behind,
        receipt.written_ns,
        count,
        receipt.missing,
        silent,
    )
