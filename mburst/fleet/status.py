"""The status of the hosts that ship to a target: until when nothing is missing, and which hosts are silent."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

from ..units import NS_PER_DAY, format_duration
from . import DETECTED
from .inventory import HostOf
from .plan import NEAR_NS
from .receipts import AHEAD_NS, DamagedReceipt, Receipt, ReceiptName, list_receipts, newest_receipt
from .ship import BEAT_NS
from .target import FleetTarget

INTERVALS = 2  # number of shipping intervals by which a host may be behind
WHOLE_DAY_NS = NS_PER_DAY + NEAR_NS  # age of a day at which its bursts begin to be shipped, for levels that ship bursts
_THREADS = 16  # threads that read receipts


class HostStatus(NamedTuple):
    """A host that has shipped, by its newest receipt, or one of an inventory that has not: without level, tables and
    receipts, and with times of 0. Times are Unix nanoseconds; `behind_ns` is the time since until_ns. `silent` is the
    reason why the host counts as silent, or ''. `removed_ns` is since when it is not expected any more, or None."""

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
    removed_ns: int | None = None


def status(
    target: FleetTarget,
    rack: str | None = None,
    now_ns: int | None = None,
    damaged: Callable[[DamagedReceipt], None] = lambda _: None,
    inventory: Iterable[HostOf] = (),
    doubted: Callable[[str], None] = lambda _: None,
) -> list[HostStatus]:
    """Returns every host that has shipped to TARGET, of RACK or of all racks, by rack and name, from its newest intact
    receipt, and those of INVENTORY that are expected now and have never shipped. DAMAGED is called with each damaged
    receipt, and DOUBTED with why a host that the inventory removes is expected even so. Raises TargetError."""
    now = time.time_ns() if now_ns is None else now_ns
    names: dict[tuple[str, str], list[ReceiptName]] = {}
    for name in list_receipts(target, rack):
        names.setdefault((name.rack, name.host), []).append(name)
    with ThreadPoolExecutor(_THREADS) as pool:
        found = list(pool.map(lambda of: newest_receipt(target, of, now, damaged), names.values()))
    listed = {(of.rack, of.host): of for of in inventory if rack in (None, of.rack)}
    hosts = []
    for receipt, of in zip(found, names.values(), strict=True):
        if receipt is not None:
            own = listed.get((receipt.rack, receipt.host))
            hosts.append(_as_listed(_status(receipt, len(of), now), own, now, doubted))
    never = [_never_shipped(of, now) for name, of in listed.items() if name not in names and _is_late(of, now)]
    return sorted([*hosts, *never], key=lambda host: (host.rack, host.host))


def _as_listed(host: HostStatus, of: HostOf | None, now_ns: int, doubted: Callable[[str], None]) -> HostStatus:
    """Returns the status of a host that an inventory lists (None: it does not). One that is removed is not silent."""
    if of is None or of.removed_ns is None or of.removed_ns > now_ns:
        return host
    if doubt := of.doubt(host.until_ns):
        doubted(doubt)
        return host
    is_ahead = host.written_ns > now_ns + AHEAD_NS
    return host._replace(silent=host.silent if is_ahead else "", removed_ns=of.removed_ns)


def _is_late(of: HostOf, now_ns: int) -> bool:
    """Whether a host of an inventory should have shipped by now."""
    return of.is_expected(now_ns, now_ns - INTERVALS * BEAT_NS)


def _never_shipped(of: HostOf, now_ns: int) -> HostStatus:
    return HostStatus(of.rack, of.host, "", (), 0, now_ns, 0, 0, (), "never shipped here")


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


def facts(target: str, hosts: Sequence[HostStatus], damaged: Sequence[DamagedReceipt]) -> dict[str, Any]:
    """The object that `mburst fleet status --json` prints: what `status` returned for TARGET, and the damaged
    receipts."""
    return {
        "target": target,
        "hosts": [host._asdict() for host in hosts],
        "silent": sum(bool(host.silent) for host in hosts),
        "damaged_receipts": [str(error) for error in damaged],
    }
