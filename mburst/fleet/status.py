"""Who ships to a target: until when nothing of each host is missing, and who is silent."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

from ..units import format_duration
from . import DETECTED
from .plan import DAY_NS, NEAR_NS
from .receipts import DamagedReceipt, Receipt, ReceiptName, list_receipts, read_receipt
from .ship import BEAT_NS
from .target import FleetTarget

INTERVALS = 2  # by which a host that ships may be behind
AHEAD_NS = 600 * 10**9  # by which a host's clock may be ahead of ours: beyond, its watermark says nothing
WHOLE_DAY_NS = DAY_NS + NEAR_NS  # after which a day begins to be shipped of which bursts are shipped alone
_THREADS = 16  # that read receipts


class HostStatus(NamedTuple):
    """A host that has shipped, by its newest receipt. Times are Unix nanoseconds, `behind_ns` is the time since
    until_ns. `silent`: why it is silent, or ''."""

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
    """Every host that has shipped to TARGET, of RACK or of all, by rack and name; by the newest of its receipts that is
    sound. DAMAGED hears of those that are not. Raises TargetError."""
    now = time.time_ns() if now_ns is None else now_ns
    names: dict[tuple[str, str], list[ReceiptName]] = {}
    for name in list_receipts(target, rack):
        names.setdefault((name.rack, name.host), []).append(name)
    with ThreadPoolExecutor(_THREADS) as pool:
        found = list(pool.map(lambda of: _newest(target, of, damaged), names.values()))
    return sorted(
        _status(receipt, len(of), now) for receipt, of in zip(found, names.values(), strict=True) if receipt is not None
    )


def _newest(
    target: FleetTarget, names: Iterable[ReceiptName], damaged: Callable[[DamagedReceipt], None]
) -> Receipt | None:
    """The newest of one host's receipts. Of those of one second, the one that was written last."""
    newest: Receipt | None = None
    for name in sorted(names, key=lambda name: name.written_ns, reverse=True):
        if newest is not None and name.written_ns < newest.written_ns // 10**9 * 10**9:
            break
        try:
            receipt = read_receipt(target, name)
        except DamagedReceipt as error:
            damaged(error)
            continue
        if newest is None or receipt.written_ns > newest.written_ns:
            newest = receipt
    return newest


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
