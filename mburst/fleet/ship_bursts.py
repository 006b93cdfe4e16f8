"""Ships the bursts of a store, with or without the rows near them. The day of a host is detected where it was recorded,
once it is complete.

The objects equal those that `mburst fleet detect --split host` would write for a target with the rows, to the byte. So
the target is a place of results (results.py), and a fleet is queried there, whichever way a host ships. If older
captures are recorded into the store later, the day is detected again and its files are replaced."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path

from .. import __version__
from ..errors import MburstError
from ..sql import StoreFolder
from ..sql.damage import readable
from ..sql.tables import RECORDED
from ..units import NS_PER_DAY, format_count
from . import UNFIT, UNFIT_HINT, receipts
from .plan import (
    LINKS,
    NEAR_NS,
    STATED,
    SWITCH,
    PartitionPlan,
    compacted_of,
    date_of,
    differences,
    needed_from,
    planned,
    start_of,
    writer_of,
)
from .receipts import Receipt, ReceiptName, ShippedFile
from .results import DividedOtherwise, NearRows, PartitionName, PartitionRecord, check_division, open_results, recorded
from .sealed import HostFiles, SealedTableFile, key_of, list_switch_files
from .ship import (
    HostShipped,
    Report,
    ShipCall,
    Shipped,
    ShipSettings,
    begin,
    check_hosts,
    compacted_before,
    is_due,
    named_hosts,
)
from .target import FleetTarget
from .task import detected, put

TABLES = (*RECORDED, *STATED)  # tables in which bursts are detected
NEEDED = (*TABLES, SWITCH, LINKS)  # tables that the detection of a day reads
MADE_OF_OTHERS = "was made of files that this store does not have, and there are others: nothing was replaced"
OTHERS_HINT = "they were compacted or set aside here before the others came; or another store ships as this host"
DAMAGED_HINT = "remove the record, and the day is detected in what is here"


def ship_bursts(
    store: StoreFolder, target: FleetTarget, settings: ShipSettings, report: Report = lambda _: None
) -> Shipped:
    """Detect and ship the complete days of STORE that TARGET does not have. REPORT is called after each day. Raises
    TargetError if the target cannot be read or written now; the next call continues. Raises UsageError if the target
    has rows of stores or results of another definition, and as ship.ship does."""
    asked = replace(settings, tables=TABLES)
    check_hosts(store, target, asked)
    open_results(target, settings.definition)
    call = begin(store, target, settings, NEEDED)
    hosts = [_HostBursts(call, found) for found in named_hosts(store, asked, call.done)]
    for host in hosts:
        host.bring_days(report)
    needed = set[str]().union(*(host.needed for host in hosts))  # by any: hosts of a rack share the files of switches
    for host in hosts:
        host.finish(needed)
    return call.done


class _HostBursts:
    """Ships the days of one host. `needed` are the keys of files that its days still take."""

    def __init__(self, call: ShipCall, found: HostFiles) -> None:
        self._call = call
        self._store, self._target, self._settings = call.store, call.target, call.settings
        self._ledger, self._done = call.ledger, call.done
        self._found = found
        until = found.until_ns(time.time_ns()) - NEAR_NS
        self._result = HostShipped(found.name, start_of(date_of(until)) if until > 0 else 0)
        self._new: list[ShippedFile] = []
        self._compacted_ns: tuple[int, int] | None = None
        self._days: set[str] = set()  # days in this call's receipt, in the form of the ledger
        self._known: list[ReceiptName] = []  # from before this call
        self._keys: set[str] = set()  # of all files
        self.needed: set[str] = set()

    def bring_days(self, report: Report) -> None:
        """Ship the days. Raises TargetError."""
        self._done.hosts.append(self._result)
        known = self._known = list(receipts.list_receipts(self._target, *self._found.name))
        self._compacted_ns = compacted_before(self._call, known, self._found.name.rack, TABLES)
        files, lacking = self._files()
        plans = list(self._plans(files, lacking))
        noted = {day for name in known for day in self._ledger.receipts.get(name.key, ())}
        arrived = {plan.name.date: any(_is_of(day, plan) for day in noted) for plan in plans}
        days = {day.partition(" ")[0] for day in noted}
        kept = {day for day in noted if day.partition(" ")[0] in arrived}
        self._keys = {file.key for file in files}
        there = {name.key for name in known}
        self._ledger.forget(self._ledger.keep(there, kept | self._keys, receipts.folder_of(*self._found.name)))
        self.needed = {file.key for file in needed_from(files, self._result.until_ns)}
        for plan in plans:
            if not (arrived[plan.name.date] or self._bring(plan, is_known=plan.name.date in days, report=report)):
                self.needed |= {file.key for file in plan.near}

    def _files(self) -> tuple[list[ShippedFile], list[str]]:
        """Returns the files in which days are detected, and a line for each damaged or set-aside one."""
        of_switches, damaged = list_switch_files(self._store.path, self._found.name.rack, self._settings.own)
        files = [self._local(of) for of in [*self._found.files, *of_switches] if of.table in NEEDED]
        lacking = [*self._found.damaged, *self._found.set_aside, *damaged]
        return files, [f"{key_of(Path(one.path))}: {one.reason}" for one in lacking]

    def _plans(self, files: list[ShippedFile], missing: list[str]) -> Iterator[PartitionPlan]:
        """Yields the plan of each complete day with bins, in order."""
        for date in sorted({date for file in files if file.table == "bins" for date in _dates(file)}):
            if start_of(date) + NS_PER_DAY <= self._result.until_ns:
                name = PartitionName(date, *self._found.name)
                lost = compacted_of(f"host {name.host}", self._compacted_ns, start_of(date))
                plan = planned(name, self._settings.definition, files, {}, [*missing, *lost])
                yield replace(plan, with_rows=self._settings.level == "hot")

    def _local(self, of: SealedTableFile) -> ShippedFile:
        """Returns a file as a plan lists it. The file is not read: its name contains a checksum, which is verified on
        reading."""
        name = of.file.name
        size = 0
        with suppress(OSError):  # the file was removed after it was listed, which is noticed on reading
            size = of.file.path.stat().st_size
        return ShippedFile(of.table, of.key, size, f"xxh3:{name.digest}", 0, name.first_ns, name.last_ns)

    def _bring(self, plan: PartitionPlan, report: Report, *, is_known: bool) -> bool:
        """Whether the target has what a plan gives, though the ledger was lost, or has it now. IS_KNOWN: whether this
        store has shipped the day before. What was made of files that are no longer here is not replaced by less."""
        record, damaged = recorded(self._target, plan.name)
        is_done = record is not None and plan.is_done(record)
        gone, more = ([], []) if is_done or not (record or damaged) else differences(self._target, plan, record)
        if record is not None and (is_done or (gone and not more)):
            self._note(plan, record)
            self._result.there += len(record.rows)
            return True
        if gone and not (is_known and self._are_replaced(gone)):
            what = f"{damaged}; the day" if damaged else f"{self._target.name}: {plan.name}"
            self._miss(plan, MburstError(f"{what} {MADE_OF_OTHERS}", DAMAGED_HINT if damaged else OTHERS_HINT))
            return False
        is_shipped = self._ship(plan, is_new=not (record or damaged))
        report(self._done)
        return is_shipped

    def _are_replaced(self, gone: list[ShippedFile]) -> bool:
        """Whether files are gone since what they have was recorded again."""
        with self._store.connect(since_ns=0, until_ns=0) as con, readable(con):  # rows about recordings alone
            counting = {writer for (writer,) in con.execute("SELECT DISTINCT writer_id FROM recordings").fetchall()}
        return all(file.table in RECORDED and writer_of(file) not in counting for file in gone)

    def _ship(self, plan: PartitionPlan, *, is_new: bool) -> bool:
        """Whether a day was detected and put. What goes wrong with its files costs this day alone. The plan of one that
        IS_NEW says that it was to be; of another one it is that of its record until there are new tables."""
        name, used = plan.name, time.process_time()
        try:
            check_division(self._target, name)
        except DividedOtherwise as error:
            self._miss(plan, error)
            return False
        if is_new:
            self._target.replace(name.plan_key, plan.to_json())
        near = NearRows() if plan.with_rows else None
        try:
            found = detected(plan, self._paths, self._store.path, near.take if near else None)
        except MburstError as error:
            self._miss(plan, error)
            return False
        if not is_new:
            self._target.replace(name.plan_key, plan.to_json())
        try:
            record = put(self._target, plan, found, time.process_time() - used, near)
        except DividedOtherwise as error:
            self._miss(plan, error)
            return False
        self._note(plan, record)
        if record.unfit_ports:
            left_out = UNFIT.format(format_count(record.unfit_ports, "recording"))
            self._miss(plan, MburstError(f"{self._found.name}: {left_out}", UNFIT_HINT))
        self._result.sent += len(record.rows)
        self._result.sent_bytes += sum(file.bytes for file in self._new[-len(record.rows) :])
        return True

    def _paths(self, files: Iterable[ShippedFile]) -> dict[str, list[Path]]:
        """Returns the paths of a plan's files by table."""
        found: dict[str, list[Path]] = defaultdict(list)
        for file in files:
            found[file.table].append(self._store.path / file.key)
        return dict(found)

    def _note(self, plan: PartitionPlan, record: PartitionRecord) -> None:
        self._days.add(" ".join([plan.name.date, plan.digest(record.unsettled), *record.unsettled]))
        for table, digest in record.sha256.items():
            key = plan.name.key(table)
            size = len(self._target.get(key))
            self._new.append(
                ShippedFile(table, key, size, digest, record.rows[table], plan.since_ns, plan.until_ns - 1)
            )

    def _miss(self, plan: PartitionPlan, error: MburstError) -> None:
        self._done.troubles.append(error)
        self._result.missing.append(f"{plan.name.date}: {error}")

    def finish(self, needed: set[str]) -> None:
        """A receipt of what is new, or that nothing is. NEEDED: the keys of files that days of any host still take. No
        day takes the others any more. Raises TargetError."""
        if self._new or is_due(self._known, self._settings):
            receipt = self._receipt()
            key = receipts.write_receipt(self._target, receipt)
            self._result.receipts.append(key)
            self._ledger.add(key, self._days | (self._keys - needed))
        self._ledger.write()

    def _receipt(self) -> Receipt:
        return Receipt(
            *self._found.name,
            level=self._settings.level,
            tables=TABLES,
            definition=asdict(self._settings.definition),
            since_ns=min((file.min_ns for file in self._new), default=self._result.until_ns),
            until_ns=self._result.until_ns,
            written_ns=time.time_ns(),
            every_ns=self._settings.every_ns,
            version=__version__,
            files=tuple(self._new),
            missing=tuple(self._result.missing),
            compacted_ns=self._compacted_ns,
        )


def _is_of(noted: str, plan: PartitionPlan) -> bool:
    """Whether a day in the ledger (its date, its digest, and the unsettled writers) is that of PLAN."""
    date, _, rest = noted.partition(" ")
    digest, *unsettled = rest.split(" ")
    return date == plan.name.date and plan.gives(digest, unsettled)


def _dates(file: ShippedFile) -> Iterator[str]:
    """Yields the dates (UTC) that rows of a file may have."""
    for day in range(file.min_ns // NS_PER_DAY, file.max_ns // NS_PER_DAY + 1):
        yield date_of(day * NS_PER_DAY)
