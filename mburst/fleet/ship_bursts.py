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
from ..errors import MburstError, UsageError
from ..sql import StoreFolder
from ..sql.segments import FileSelection, list_sealed
from ..sql.store import MARKER as STORE_MARKER
from ..units import format_count
from . import UNFIT, UNFIT_HINT, receipts
from .plan import DAY_NS, MEASURED, NEAR_NS, STATED, PartitionPlan, compacted_of, date_of, planned, start_of
from .receipts import Receipt, ReceiptName, ShippedFile
from .results import NearRows, PartitionName, PartitionRecord, list_records, open_results, read_record
from .sealed import HostFiles, SealedTableFile, key_of, list_switch_files
from .ship import (
    BEAT_NS,
    HostShipped,
    Report,
    ShipCall,
    Shipped,
    ShipSettings,
    begin,
    check_hosts,
    compacted_before,
    named_hosts,
)
from .target import FleetTarget
from .task import detected, put

TABLES = (*MEASURED, *STATED)  # tables in which bursts are detected


def ship_bursts(
    store: StoreFolder, target: FleetTarget, settings: ShipSettings, report: Report = lambda _: None
) -> Shipped:
    """Detect and ship the complete days of STORE that TARGET does not have. REPORT is called after each day. Raises
    TargetError if the target cannot be read or written now; the next call continues. Raises UsageError if the target
    has rows of stores or results of another definition, and as ship.ship does."""
    if target.holds(STORE_MARKER, b"") is not None:
        raise UsageError(f"{target.name}: has rows of stores, and no results", "name another place for bursts")
    asked = replace(settings, tables=TABLES)
    check_hosts(store, target, asked)
    open_results(target, settings.definition)
    call = begin(store, target, settings)
    for found in named_hosts(store, asked, call.done):
        _HostBursts(call, found).run(report)
    return call.done


class _HostBursts:
    """Ships the days of one host."""

    def __init__(self, call: ShipCall, found: HostFiles) -> None:
        self._call = call
        self._store, self._target, self._settings = call.store, call.target, call.settings
        self._ledger, self._done = call.ledger, call.done
        self._found = found
        until = start_of(date_of(found.until_ns() - NEAR_NS)) if found.until_ns() > NEAR_NS else 0
        self._result = HostShipped(found.name, until)
        self._new: list[ShippedFile] = []
        self._compacted_ns: tuple[int, int] | None = None
        self._days: set[str] = set()  # days in this call's receipt, in the form of the ledger
        call.done.hosts.append(self._result)

    def run(self, report: Report) -> None:
        """Ship the days. Raises TargetError."""
        known = list(receipts.list_receipts(self._target, *self._found.name))
        self._compacted_ns = compacted_before(self._call, known, self._found.name.rack)
        plans = list(self._plans())
        noted = {day for name in known for day in self._ledger.receipts.get(name.key, ())}
        compacted = self._compacted()
        arrived = {
            plan.name.date: {
                day
                for day in noted
                if _is_of(day, plan) or (plan.name.date in compacted and day.startswith(f"{plan.name.date} "))
            }
            for plan in plans
        }
        self._ledger.keep(
            {name.key for name in known}, set().union(*arrived.values()), receipts.folder_of(*self._found.name)
        )
        for plan in plans:
            if not arrived[plan.name.date] and not self._is_there(plan):
                self._ship(plan)
                report(self._done)
        self._finish(known)

    def _compacted(self) -> set[str]:
        """Returns the days of which compaction has removed bins. It waited until they were shipped, so these days are
        not checked again."""
        of_rack = list_sealed(self._store.path, "thinned", FileSelection(self._found.name.rack)).files
        return {file.path.parent.parent.name.removeprefix("date=") for file in of_rack}

    def _plans(self) -> Iterator[PartitionPlan]:
        """Yields the plan of each complete day with bins, in order."""
        of_switches, damaged = list_switch_files(self._store.path, self._found.name.rack, self._settings.own)
        files = [self._local(of) for of in self._found.files if of.table in TABLES]
        files += [self._local(of) for of in of_switches]
        lacking = [*self._found.damaged, *self._found.set_aside, *damaged]
        missing = [f"{key_of(Path(one.path))}: {one.reason}" for one in lacking]
        for date in sorted({date for file in files if file.table == "bins" for date in _dates(file)}):
            if start_of(date) + DAY_NS <= self._result.until_ns:
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

    def _is_there(self, plan: PartitionPlan) -> bool:
        """Whether the target has the result of this plan, even if the ledger was lost."""
        record = read_record(self._target, plan.name)
        if record is None or not plan.is_done(record):
            return False
        self._note(plan, record)
        self._result.there += len(record.rows)
        return True

    def _ship(self, plan: PartitionPlan) -> None:
        """Detect a day and put its result. An error in its files does not affect other days."""
        name, used = plan.name, time.process_time()
        if any(one.host is None for one in list_records(self._target, name.date, name.rack)):
            self._miss(
                plan,
                MburstError(
                    f"{self._target.name}: rack {name.rack} of {name.date} is not divided by host",
                    "detect it with `mburst fleet detect --split host` into a place of its own",
                ),
            )
            return
        self._target.replace(name.plan_key, plan.to_json())
        near = NearRows() if plan.with_rows else None
        try:
            found = detected(plan, self._paths, self._store.path, near.take if near else None)
        except MburstError as error:
            self._miss(plan, error)
            return
        record = put(self._target, plan, found, time.process_time() - used, near)
        self._note(plan, record)
        if record.unfit_ports:
            left_out = UNFIT.format(format_count(record.unfit_ports, "recording"))
            self._miss(plan, MburstError(f"{self._found.name}: {left_out}", UNFIT_HINT))
        self._result.sent += len(record.rows)
        self._result.sent_bytes += sum(file.bytes for file in self._new[-len(record.rows) :])

    def _paths(self, files: Iterable[ShippedFile]) -> dict[str, list[Path]]:
        """Returns the paths of a plan's files by table."""
        found: dict[str, list[Path]] = defaultdict(list)
        for file in files:
            found[file.table].append(self._store.path / file.key)
        return dict(found)

    def _note(self, plan: PartitionPlan, record: PartitionRecord) -> None:
        self._days.add(" ".join([plan.name.date, record.digest, *record.unsettled]))
        for table, digest in record.sha256.items():
            key = plan.name.key(table)
            size = len(self._target.get(key))
            self._new.append(
                ShippedFile(table, key, size, digest, record.rows[table], plan.since_ns, plan.until_ns - 1)
            )

    def _miss(self, plan: PartitionPlan, error: MburstError) -> None:
        self._done.troubles.append(error)
        self._result.missing.append(f"{plan.name.date}: {error}")

    def _finish(self, known: list[ReceiptName]) -> None:
        """Write a receipt of the new files or, if it is due, of none."""
        newest_ns = max((name.written_ns for name in known), default=0)
        beat_ns = self._settings.every_ns or BEAT_NS
        if self._new or time.time_ns() - newest_ns > beat_ns // 2:
            receipt = self._receipt()
            key = receipts.write_receipt(self._target, receipt)
            self._result.receipts.append(key)
            self._ledger.add(key, self._days)
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
    for day in range(file.min_ns // DAY_NS, file.max_ns // DAY_NS + 1):
        yield date_of(day * DAY_NS)
