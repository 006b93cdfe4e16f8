"""The plans of the detection of one day: a partition for each rack, or for each host of a large rack, from what its
hosts have shipped and what was expected of them. Files are taken from receipts, so that only receipts are listed."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

from ..analysis.bursts.find import BurstDefinition
from ..errors import UsageError
from ..sql.tables import RECORDED
from ..units import NS_PER_DAY
from . import LEVELS
from .inventory import HostOf
from .plan import LINKS, NEAR_NS, STATED, SWITCH, PartitionPlan, compacted_of, host_of, lacking_file, planned, start_of
from .receipts import (
    DamagedReceipt,
    Receipt,
    ReceiptName,
    ShippedFile,
    age,
    believed,
    files_of,
    list_receipts,
    read_receipt,
    removed_receipts,
    shipped_until,
)
from .results import PartitionName, list_records, sound_record
from .target import FleetTarget

SKEW_NS = NS_PER_DAY  # longest time by which the clock of receipts may be behind the clock of their bins
LARGE_BYTES = 2 << 30  # size of a rack's day above which it is divided by host
_THREADS = 16  # threads that read receipts


def plan(
    target: FleetTarget,
    results: FleetTarget,
    date: str,
    definition: BurstDefinition,
    *,
    split: str = "auto",
    rack: str | None = None,
    inventory: Iterable[HostOf] = (),
    with_verdicts: bool = False,
    now_ns: int | None = None,
    damaged: Callable[[DamagedReceipt], None] = lambda _: None,
    doubted: Callable[[str], None] = lambda _: None,
) -> Iterator[PartitionPlan]:
    """Yields the partitions of DATE, of RACK or of all racks, rack by rack. SPLIT is `rack`, `host`, or `auto`, which
    divides as existing results of the date do, and otherwise divides racks of more than LARGE_BYTES. INVENTORY has the
    hosts that are expected to ship, and from when until when. WITH_VERDICTS is as in PartitionPlan. DAMAGED is called
    with each receipt that is left out, and DOUBTED with why a host that the inventory removes is expected even so.
    Raises UsageError if results are divided otherwise, and TargetError."""
    now = time.time_ns() if now_ns is None else now_ns
    listed: dict[str, dict[str, HostOf]] = defaultdict(dict)
    for host in inventory:
        if rack in (None, host.rack):
            listed[host.rack][host.host] = host
    names: dict[str, list[ReceiptName]] = defaultdict(list)
    for name in list_receipts(target, rack):
        names[name.rack].append(name)
    for of_rack in sorted({*names, *listed}):
        shipped = _Shipped(target, names.get(of_rack, []), start_of(date) - SKEW_NS, now, damaged)
        day = _RackDay(date, of_rack, definition, shipped, listed[of_rack], with_verdicts)
        for doubt in day.doubts():
            doubted(doubt)
        yield from _divided(day, results, split, now)


class _Shipped:
    """The files that the hosts of a rack have shipped, by the receipts written from SINCE_NS on, those that these name
    as far as they are of the same time, and the newest of each host. A receipt that is later than NOW_NS was written by
    a clock that was ahead: its watermark says nothing. `latest_ns` is the end of the latest measurements that each host
    states there to have shipped: a watermark may go back."""

    def __init__(
        self,
        target: FleetTarget,
        names: list[ReceiptName],
        since_ns: int,
        now_ns: int,
        damaged: Callable[[DamagedReceipt], None],
    ) -> None:
        newest: dict[str, ReceiptName] = {name.host: name for name in sorted(names, key=lambda of: age(of, now_ns))}
        wanted = [name for name in names if name.written_ns >= since_ns or newest[name.host] is name]

        self._unknown: dict[str, str] = {}  # lines that say of which files nothing is known, and the host of each
        self._old: set[str] = set()  # those of them that are on receipts from before SINCE_NS

        def unread(name: ReceiptName, error: DamagedReceipt) -> None:
            damaged(error)
            line = f"{name.key}: a damaged receipt"
            self._unknown[line] = name.host
            if name.written_ns < since_ns:
                self._old.add(line)

        def differ(error: DamagedReceipt, file: ShippedFile) -> None:
            damaged(error)
            self._unknown[f"{error}"] = host_of(file) or ""

        there = {name.key: name for name in names}
        found = _read_chains(target, there, wanted, since_ns, unread)
        receipts = [believed(of, now_ns) for of in sorted(found, key=lambda of: age(of, now_ns))]
        self.files = files_of(receipts, differ)
        for name, host in removed_receipts(receipts, there):
            if name.written_ns >= since_ns:
                self._unknown[f"{name.key}: a receipt that was removed"] = host
        self._shippers = {file.key: receipt.host for receipt in reversed(receipts) for file in receipt.files}
        self._shipping = {receipt.host for receipt in receipts if receipt.files}
        self.newest = {receipt.host: receipt for receipt in receipts}
        self.latest_ns: dict[str, int] = {}
        for receipt in receipts:
            self.latest_ns[receipt.host] = max(receipt.until_ns, self.latest_ns.get(receipt.host, receipt.until_ns))
        self.hosts = {*newest}

    def owner_of(self, file: ShippedFile) -> str:
        """Returns the host of a file. Files without a recording host, such as those of switch ports, belong to the host
        that shipped them first: a collector that gets another name ships them again."""
        return host_of(file) or self._shippers[file.key]

    def unknown(self, hosts: Collection[str], needed: Collection[str]) -> Iterator[str]:
        """A line for each receipt of HOSTS that is damaged or was removed, and each file that receipts state different
        content of. An old receipt counts if its host is one of NEEDED."""
        for line, host in self._unknown.items():
            if host in ("", *hosts) and (line not in self._old or host in needed):
                yield line

    def collectors(self) -> set[str]:
        """Returns the hosts that shipped files but recorded none of them."""
        own = {host_of(file) for file in self.files.values()}
        return self._shipping - own


def _read_chains(
    target: FleetTarget,
    there: Mapping[str, ReceiptName],
    wanted: Iterable[ReceiptName],
    since_ns: int,
    damaged: Callable[[ReceiptName, DamagedReceipt], None],
) -> list[Receipt]:
    """Returns the WANTED receipts, and those THERE that these name, as far as they are about the time from SINCE_NS on.
    DAMAGED is called with each that cannot be read. Raises TargetError."""

    def read(name: ReceiptName) -> Receipt | None:
        try:
            return read_receipt(target, name)
        except DamagedReceipt as error:
            damaged(name, error)
            return None

    left, receipts = {**there}, list[Receipt]()
    keys = {name.key for name in wanted}
    with ThreadPoolExecutor(_THREADS) as pool:
        while keys:
            names = [left.pop(key) for key in sorted(keys)]
            found = [receipt for receipt in pool.map(read, names) if receipt is not None]
            receipts += found
            reaching = [of for of in found if max([of.written_ns, *(file.max_ns for file in of.files)]) >= since_ns]
            keys = {key for of in reaching for key in of.previous if key in left}
    return receipts


@dataclass
class _RackDay:
    """A day of a rack before it is divided."""

    date: str
    rack: str
    definition: BurstDefinition
    shipped: _Shipped
    listed: Mapping[str, HostOf]
    with_verdicts: bool = False

    def __post_init__(self) -> None:
        self._since_ns = start_of(self.date)
        self._until_ns = self._since_ns + NS_PER_DAY
        self._whole_ns = self._until_ns + NEAR_NS  # until when a host has shipped everything that the day needs
        expected = {name for name, of in self.listed.items() if of.is_expected(self._since_ns, self._until_ns)}
        self.hosts = sorted({*self.shipped.hosts, *expected})  # that have ever shipped, and that are expected to
        self._early = {*self._measured_early()}

    def _measured_early(self) -> Iterator[str]:
        """Yields the hosts that have shipped a part of the day, from before they were to be there."""
        added = {name: of.added_ns for name, of in self.listed.items() if (of.added_ns or 0) > self._since_ns}
        for name, added_ns in added.items():
            receipt = self.shipped.newest.get(name)
            if receipt and added_ns is not None and self._since_ns < receipt.until_ns <= added_ns:
                yield name
        for file in self.shipped.files.values() if added else ():
            if file.table in RECORDED and file.min_ns < self._until_ns and file.max_ns >= self._since_ns:
                name = self.shipped.owner_of(file)
                if file.min_ns < (added.get(name) or self._since_ns):
                    yield name

    def doubts(self) -> list[str]:
        """Why hosts are expected that the inventory removes before the end of the day."""
        doubts = (
            of.doubt(self.shipped.latest_ns.get(name))
            for name, of in sorted(self.listed.items())
            if not of.is_expected(self._whole_ns, self._whole_ns)
        )
        return [doubt for doubt in doubts if doubt]

    def _needed_ns(self, host: str) -> int | None:
        """Returns until when HOST is expected to have shipped, or None if nothing of the day is expected of it."""
        of = self.listed.get(host)
        if of is None:
            return self._whole_ns if host in self.shipped.hosts else None
        if of.doubt(self.shipped.latest_ns.get(host)):
            return self._whole_ns
        if host not in self._early and not of.is_expected(self._since_ns, self._until_ns):
            return None
        return self._whole_ns if of.removed_ns is None else min(of.removed_ns, self._whole_ns)

    def expects(self, host: str | None) -> bool:
        """Whether anything of the day is expected of HOST, or of any host if HOST is None."""
        return any(self._needed_ns(of) is not None for of in (self.hosts if host is None else [host]))

    def partition(self, host: str | None) -> PartitionPlan:
        """Returns the partition of a host, or of all hosts if HOST is None."""
        hosts = self.hosts if host is None else [host]
        files = [
            file
            for file in self.shipped.files.values()
            if self.shipped.owner_of(file) in hosts or file.table in (SWITCH, LINKS)
        ]
        needed = {of: needed_ns for of in hosts if (needed_ns := self._needed_ns(of)) is not None}
        newest = {of: self.shipped.newest.get(of) for of in hosts}
        behind = {
            of: receipt.until_ns if receipt else None
            for of, needed_ns in needed.items()
            if (receipt := newest[of]) is None or receipt.until_ns < needed_ns
        }
        removed = {of: needed[of] for of in behind if needed[of] < self._until_ns}
        lacking = (_missing(of, self._since_ns, of.host in needed) for of in newest.values() if of)
        found = planned(
            PartitionName(self.date, self.rack, host),
            self.definition,
            files,
            behind,
            {*self.shipped.unknown(hosts, needed)}.union(*lacking),
            [file for file in self.shipped.files.values() if (host_of(file) or "") in ("", *hosts)],
            self.with_verdicts,
        )
        return replace(found, collectors=tuple(sorted(self.shipped.collectors() & behind.keys())), removed=removed)


def _missing(receipt: Receipt, since_ns: int, expected: bool) -> Iterator[str]:
    """Yields what a host's newest receipt reports as not shipped of the day from SINCE_NS on: files with a time in any
    case, and the rest if measurements of the day are EXPECTED of the host."""
    if not expected:
        yield from filter(lacking_file, receipt.missing)
        return
    yield from receipt.missing
    yield from compacted_of(f"host {receipt.host}", receipt.compacted_ns, since_ns)
    if receipt.level != LEVELS[0]:
        yield f"host {receipt.host} ships no rows: its level is {receipt.level}"
    for table in {*RECORDED, *STATED} - {*receipt.tables}:
        yield f"host {receipt.host} does not ship the table {table}"


def _divided(day: _RackDay, results: FleetTarget, split: str, now_ns: int) -> Iterator[PartitionPlan]:
    """Yields the day as one partition, or as one for each host. Raises UsageError if the results are divided
    otherwise."""
    done = {name.host for name in list_records(results, day.date, day.rack)}
    there = {"rack" if host is None else "host" for host in done}
    if split != "auto" and there - {split}:
        raise UsageError(
            f"{results.name}: rack {day.rack} is divided by {there.pop()} on {day.date}", "leave --split out"
        )
    whole = day.partition(None)
    large = sum(file.bytes for file in whole.near) > LARGE_BYTES
    by_host = split == "host" or there == {"host"}  # if a rack is divided in both ways, by none more
    if by_host or (split == "auto" and not there and large):
        unexpected = {host for host in done if host is not None and host not in day.hosts} if day.listed else set()
        parts = [
            part
            for part in map(day.partition, [*day.hosts, *sorted(unexpected)])
            if not (part.behind or part.missing) or not _has_shipped(results, part, now_ns)
        ]
    else:
        parts = [whole]
    for part in parts:  # otherwise each host that was ever removed would have one, every day
        has_rows = any(file.table in RECORDED for file in part.near)
        is_wanted = has_rows or part.missing or day.expects(part.name.host)
        if is_wanted or (part.name.host in done and _has_nothing(results, part.name)):
            yield part


def _has_nothing(results: FleetTarget, name: PartitionName) -> bool:
    """Whether the result of a partition has no row but what was incomplete. Only such a result is replaced where
    nothing is expected any more; others may be those of a host that ships its bursts itself."""
    record = sound_record(results, name)
    return record is not None and not any(rows for table, rows in record.rows.items() if table != "incomplete")


def _has_shipped(results: FleetTarget, part: PartitionPlan, now_ns: int) -> bool:
    """Whether the host of a partition ships bursts to RESULTS itself, and that day has arrived."""
    host = part.name.host
    return host is not None and shipped_until(results, part.name.rack, host, now_ns) >= part.until_ns
