"""Ships the sealed files of a store to a target: each file once, followed by a receipt.

The name of a file contains its checksum, so a key stands for one content. An existing object with the same bytes has
arrived, whoever wrote it; one with other bytes is an error. Shipping may be interrupted at any instant and repeated,
also by several processes at once."""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import xxhash

from .. import __version__
from ..analysis.bursts.find import BurstDefinition
from ..errors import MburstError, UsageError
from ..sql import StoreFolder, damage, disk, verified
from ..sql.format.filenames import LONGEST_HOST
from ..sql.segments import FileSelection, damaged_file, list_sealed
from ..sql.shipped import SHIPPED_TABLES, SHIPPED_TO
from ..sql.store import MARKER
from ..sql.tables import LISTING, STORE_FORMAT
from ..units import NS_PER_HOUR, format_count, format_time
from . import LEVELS, receipts
from .ledger import RESTATES, WHOLE, ShipLedger, restated_by
from .receipts import DamagedReceipt, Receipt, ReceiptName, ShippedFile
from .results import is_results
from .sealed import CUT, IN_ORDER_OF_TIME, NO_NAME, HostFiles, HostName, SealedTableFile, key_of, list_hosts
from .target import FleetTarget, TargetError

MOST_FILES = 1000  # most files of a receipt; if it is lost, they are found again with one request each
COMPACTED_FROM = ("bins", "sources", "steps")  # compaction leaves fewer rows, in files of a whole rack
BEAT_NS = NS_PER_HOUR  # interval of receipts without new files; hosts that ship regularly use their own interval


@dataclass(frozen=True)
class ShipSettings:
    """What is shipped. `own` is as in sealed.list_hosts. `every_ns` is the interval between two calls, None on demand.
    `definition` is that of bursts, for levels that ship bursts."""

    level: str = LEVELS[0]
    tables: tuple[str, ...] = tuple(LISTING)
    own: HostName = NO_NAME
    every_ns: int | None = None
    definition: BurstDefinition = field(default_factory=BurstDefinition)


@dataclass
class HostShipped:
    """What one call shipped of a host. `there` counts files that had already arrived without a receipt in the
    ledger."""

    name: HostName
    until_ns: int
    sent: int = 0
    sent_bytes: int = 0
    there: int = 0
    waiting: int = 0
    missing: list[str] = field(default_factory=list)
    receipts: list[str] = field(default_factory=list)

    def facts(self) -> dict[str, Any]:
        """Returns the facts for JSON."""
        return {**self.name._asdict(), **{name: value for name, value in vars(self).items() if name != "name"}}


@dataclass
class Shipped:
    """What one call shipped. `troubles` says why a part was not shipped, with the remedy, one line each."""

    hosts: list[HostShipped] = field(default_factory=list)
    troubles: list[MburstError] = field(default_factory=list)

    def to_dict(self, store: StoreFolder, target: FleetTarget, settings: ShipSettings) -> dict[str, Any]:
        """The object that `mburst ship --json` prints about a call with these arguments."""
        return {
            "store": str(store.path),
            "target": target.name,
            "level": settings.level,
            "tables": settings.tables,
            "hosts": [host.facts() for host in self.hosts],
            "troubles": [str(trouble) for trouble in self.troubles],
        }


class NotShipped(MburstError):
    """A file that cannot be shipped. `reason` says why."""

    def __init__(self, message: str, hint: str, reason: str) -> None:
        super().__init__(message, hint)
        self.reason = reason


class DifferentObject(NotShipped):
    """The target has different bytes under the key of a file."""

    def __init__(self, of: SealedTableFile, target: FleetTarget) -> None:
        super().__init__(
            f"{of.file.path} and {target.place(of.key)} differ: nothing was replaced",
            "the local file has the checksum of its name: find out who wrote the object, and remove it",
            "the target has an object with other bytes of this key",
        )


class DamagedSealedFile(NotShipped):
    """A sealed file that does not contain what was written."""

    def __init__(self, of: SealedTableFile, reason: str) -> None:
        super().__init__(str(damaged_file(of.file, of.table, reason)), damage.HINT, f"damaged: {reason}")


Report = Callable[[Shipped], None]


def ship(store: StoreFolder, target: FleetTarget, settings: ShipSettings, report: Report = lambda _: None) -> Shipped:
    """Ship the sealed files of STORE that TARGET does not have. REPORT is called after each file. Raises TargetError if
    the target cannot be read or written now: files that have arrived stay, and the next call continues. Raises
    UsageError if files have no host (sealed.list_hosts)."""
    check_hosts(store, target, settings)
    _check_marker(target)
    call = begin(store, target, settings, settings.tables)
    for found in named_hosts(store, settings, call.done):
        _HostShipping(call, found).run(report)
    call.ledger.write()
    return call.done


@dataclass(frozen=True)
class ShipCall:
    """One call of `ship`: what is shipped and where to. `done` is what is finished."""

    store: StoreFolder
    target: FleetTarget
    settings: ShipSettings
    ledger: ShipLedger
    done: Shipped


def check_hosts(store: StoreFolder, target: FleetTarget, settings: ShipSettings) -> None:
    """Raise UsageError if files of STORE have no host, before TARGET is changed and compaction is made to wait. The
    files to ship are listed later, because compaction may replace files until it waits."""
    if ShipLedger(store.path, target.name).is_new:
        list_hosts(store.path, {*settings.tables, "recordings"}, settings.own)


def begin(store: StoreFolder, target: FleetTarget, settings: ShipSettings, tables: Collection[str]) -> ShipCall:
    """Begin a call that ships TABLES, or bursts that are detected in them. From now on compaction waits for these and
    for all that earlier calls shipped to TARGET. If there were none, `done` reports what was compacted before."""
    call = ShipCall(store, target, settings, ShipLedger(store.path, target.name), Shipped())
    noted = call.ledger.receipts.get(SHIPPED_TABLES, set() if call.ledger.is_new else {*LISTING})  # lost: all wait
    if not noted >= {*tables}:
        call.ledger.add(SHIPPED_TABLES, noted.union(tables))
        call.ledger.add(SHIPPED_TO, {target.name})
        call.ledger.write()
    if call.ledger.is_new and (times := compacted_times(store)):
        until = format_time(times[1])
        call.done.troubles.append(
            MburstError(
                f"{store.path}: rows until {until} were compacted: what had not been shipped of them is not",
                "it is said once; from now on compaction waits for what is shipped",
            )
        )
    return call


def compacted_times(store: StoreFolder, rack: str | None = None) -> tuple[int, int] | None:
    """Returns the first and last time of rows of bins that compaction wrote, of a rack or of all; None if it wrote
    none."""
    names = [
        file.name
        for table in COMPACTED_FROM
        for file in list_sealed(store.path, table, FileSelection(rack)).files
        if file.name.segment.compacted
    ]
    return (min(name.first_ns for name in names), max(name.last_ns for name in names)) if names else None


def compacted_before(
    call: ShipCall, known: Iterable[ReceiptName], rack: str, tables: Collection[str]
) -> tuple[int, int] | None:
    """Returns compacted_ns for a receipt of TABLES of a host in RACK: as in the newest readable receipt of KNOWN. If
    there is none, or it is of fewer tables, compaction did not wait for all TABLES, and what the store shows counts as
    well. Raises TargetError."""
    newest = receipts.newest_receipt(call.target, known, time.time_ns())
    if newest and {*tables} <= {*newest.tables}:
        return newest.compacted_ns
    spans = [of for of in (newest and newest.compacted_ns, compacted_times(call.store, rack)) if of]
    return (min(first for first, _ in spans), max(last for _, last in spans)) if spans else None


def is_due(known: Iterable[ReceiptName], settings: ShipSettings) -> bool:
    """Whether a host that has the receipts KNOWN writes another one though nothing is new."""
    now = time.time_ns()
    newest_ns = max((name.written_ns for name in known if not receipts.is_ahead(name, now)), default=0)
    return now - newest_ns > (settings.every_ns or BEAT_NS) // 2


def named_hosts(store: StoreFolder, settings: ShipSettings, done: Shipped) -> Iterator[HostFiles]:
    """Yields the files of each host that may be shipped, after sealing what dead writers left. Raises the same as
    `ship`."""
    _seal(store, done)
    for _, found in sorted(list_hosts(store.path, {*settings.tables, "recordings"}, settings.own).items()):
        if found.refused:
            done.troubles.append(_refusal(found))
        else:
            yield found


def _check_marker(target: FleetTarget) -> None:
    """Make TARGET a store of this format, and verify that creating an object there replaces none. Raises UsageError if
    it has results, and TargetError."""
    if is_results(target):
        raise UsageError(f"{target.name}: has results, and no rows of stores", "name another place, or --level bursts")
    marker = (json.dumps({"format": STORE_FORMAT}) + "\n").encode()
    if target.put_new(MARKER, marker) and target.put_new(MARKER, marker):
        raise TargetError(
            f"{target.name}: replaces objects that exist: conditional writes (If-None-Match) are ignored",
            "use a store that has them; nothing was shipped",
        )
    if not target.holds(MARKER, marker):
        raise TargetError(
            f"{target.place(MARKER)}: not that of a store of format {STORE_FORMAT}", "name another prefix or folder"
        )


def _seal(store: StoreFolder, done: Shipped) -> None:
    """Seal what dead writers left, so that it is shipped, too."""
    try:
        store.seal()
    except MburstError as error:
        done.troubles.append(error)


def _refusal(found: HostFiles) -> MburstError:
    count = len(found.files) + len(found.waiting)
    what = format_count(count, "file is", "files are") if count else "its recording is"
    message = f"{found.shown}: {what} not shipped: {found.refused}"
    if found.refused == CUT:
        return MburstError(
            message,
            f"give --host a name of at most {LONGEST_HOST} bytes to `mburst record` (a letter outside A-Z and a-z "
            "counts three for each of its own), and record into a new store",
        )
    return MburstError(
        message,
        "give --host and --rack to `mburst record` (in mburst.toml: host and rack), `racks` in the file of "
        "`mburst collect`, and record into a new store",
    )


class _HostShipping:
    """Ships the files of one host."""

    def __init__(self, call: ShipCall, found: HostFiles) -> None:
        self._call = call
        self._target, self._settings, self._ledger = call.target, call.settings, call.ledger
        self._found = found
        self._troubles = call.done.troubles
        self._result = HostShipped(found.name, found.until_ns(time.time_ns()), waiting=len(found.waiting))
        self._new: list[ShippedFile] = []
        self._known: list[ReceiptName] = []  # from before this call
        self._previous: tuple[str, ...] = ()  # the last receipts of the host
        self._restates: tuple[str, ...] = ()  # removed receipts, if all that they state is there again
        call.done.hosts.append(self._result)

    def run(self, report: Report) -> None:
        """Ship the files. Raises TargetError."""
        aside = {key_of(Path(missing.path)): missing.reason for missing in self._found.set_aside}
        files = {of.key for of in self._found.files}
        known = self._known = list(receipts.list_receipts(self._target, *self._found.name))
        there = {name.key for name in known}
        removed = self._ledger.keep(there, files | aside.keys(), receipts.folder_of(*self._found.name))
        for damaged in self._found.damaged:
            self._miss(MburstError(str(damaged), damage.HINT), f"{key_of(Path(damaged.path))}: {damaged.reason}")
        arrived = set[str]().union(*(self._ledger.receipts.get(key, set()) for key in there))
        stated = self._stated([name for name in known if name.key not in self._ledger.receipts])
        noted = arrived.union(*stated.values())
        accounted = there | restated_by(noted)
        self._previous = tuple(sorted((removed.keys() - set[str]().union(*removed.values()) | there) - noted))
        self._result.missing += [f"{key}: {reason}" for key, reason in aside.items() if key not in noted]
        failed = self._send_all([of for of in self._found.files if of.key not in arrived], stated, report)
        for name, keys in stated.items():
            if not keys & failed:
                marks = {key for key in keys if key.startswith(RESTATES)}
                self._note(name, keys, keys & (files | aside.keys() | accounted) | marks)
        self._restates = _restated(removed, files - failed | accounted)
        if again := [key for key, noted in removed.items() if noted & files]:
            self._troubles.append(_removed(self._target, self._found.name, len(again)))
        if self._new or self._result.receipts or removed or is_due(known, self._settings):
            self._write_receipt(self._result.until_ns)
        self._ledger.forget(removed)
        self._ledger.write()

    def _stated(self, names: Sequence[ReceiptName]) -> dict[str, set[str]]:
        """Returns the keys in each of these receipts, as in the ledger."""
        stated = {}
        for name in names:
            try:
                stated[name.key] = _keys_in(receipts.read_receipt(self._target, name))
            except DamagedReceipt as error:
                self._troubles.append(error)
        return stated

    def _note(self, receipt: str, keys: set[str], held: set[str]) -> None:
        """Note a receipt in the ledger that states KEYS, of which HELD can be stated again if it is removed."""
        self._ledger.add(receipt, held | ({WHOLE} if held == keys else set()))

    def _send_all(self, files: Sequence[SealedTableFile], stated: dict[str, set[str]], report: Report) -> set[str]:
        """Send the files that have not arrived, and return the keys of those that were not sent. Writes a receipt after
        every MOST_FILES."""
        known: set[str] = set().union(*stated.values())
        failed: set[str] = set()
        for number, of in enumerate(files, 1):
            try:
                shipped = self._send(of)
            except FileNotFoundError:  # removed after it was listed
                failed.add(of.key)
                continue
            except (DamagedSealedFile, DifferentObject) as error:
                failed.add(of.key)
                self._miss(error, f"{of.key}: {error.reason}")
                continue
            if of.key not in known:
                self._new.append(shipped)
            if len(self._new) >= MOST_FILES:
                self._write_receipt(self._until_ns(files[number:]))
            report(self._call.done)
        return failed

    def _until_ns(self, left: Sequence[SealedTableFile]) -> int:
        """Returns the watermark while the files LEFT are not sent."""
        first = [of.file.name.first_ns for of in left if of.table in IN_ORDER_OF_TIME]
        return min([*first, self._result.until_ns])

    def _send(self, of: SealedTableFile) -> ShippedFile:
        """Send one file, unless the target has it. Raises FileNotFoundError, DamagedSealedFile, DifferentObject and
        TargetError."""
        content = read_verified(of)
        held = self._target.holds(of.key, content)
        if held is None:
            if self._target.put_new(of.key, content):
                self._result.sent += 1
                self._result.sent_bytes += len(content)
                return shipped_file(of, content)
            held = self._target.holds(of.key, content)  # another process was faster
        if not held:
            raise DifferentObject(of, self._target)
        self._result.there += 1
        return shipped_file(of, content)

    def _miss(self, trouble: MburstError, line: str) -> None:
        self._troubles.append(trouble)
        self._result.missing.append(line)

    def _write_receipt(self, until_ns: int) -> None:
        """Write a receipt of the new files, and note it in the ledger."""
        files, self._new = tuple(self._new), []
        receipt = Receipt(
            *self._found.name,
            level=self._settings.level,
            tables=self._settings.tables,
            definition=None,
            since_ns=min((file.min_ns for file in files), default=until_ns),
            until_ns=until_ns,
            written_ns=time.time_ns(),
            every_ns=self._settings.every_ns,
            version=__version__,
            files=files,
            missing=tuple(self._result.missing),
            compacted_ns=compacted_before(self._call, self._known, self._found.name.rack, self._settings.tables),
            previous=self._previous,
            restates=self._restates,
        )
        key = receipts.write_receipt(self._target, receipt)
        self._previous = (key,)
        self._result.receipts.append(key)
        self._note(key, _keys_in(receipt), _keys_in(receipt))
        self._ledger.write()


def _keys_in(receipt: Receipt) -> set[str]:
    """Returns the keys in a receipt as in the ledger: of its files, of receipts before it, and of those it restates."""
    return {file.key for file in receipt.files}.union(receipt.previous, (RESTATES + key for key in receipt.restates))


def _restated(removed: Mapping[str, set[str]], there: set[str]) -> tuple[str, ...]:
    """Returns the receipts of REMOVED, each with the keys that the ledger notes of it, of which nothing is lost: all of
    its files, and the receipts before it, are THERE, or these are restated, too; and what these restated."""
    found = {key: noted for key, noted in removed.items() if WHOLE in noted}
    while True:
        again = set[str](found).union(*map(restated_by, found.values()))
        known = there | again | {RESTATES + key for key in again}
        if not (lost := [key for key, noted in found.items() if noted - known - {WHOLE}]):
            return tuple(sorted(again - there))
        for key in lost:
            del found[key]


def _removed(target: FleetTarget, name: HostName, count: int) -> MburstError:
    are = format_count(count, "receipt was", "receipts were")
    return MburstError(
        f"{target.name}: {are} removed that {name} had written: their files that are still here were shipped again",
        "let a rule that removes objects keep receipts for longer than hosts keep their files (docs/fleet.md)",
    )


def read_verified(of: SealedTableFile) -> bytes:
    """Returns the content of a sealed file: exactly the bytes that were verified. Raises FileNotFoundError and
    DamagedSealedFile."""
    path, name = of.file.path, of.file.name
    try:
        with os.fdopen(disk.open_regular(path), "rb") as file:
            content = file.read()
    except FileNotFoundError:
        raise
    except OSError as error:
        raise DamagedSealedFile(of, error.strerror or str(error)) from error
    if xxhash.xxh3_64_hexdigest(content) != name.digest:
        raise DamagedSealedFile(of, "the content does not match its checksum")
    if reason := verified.fault(path):
        raise DamagedSealedFile(of, reason)
    return content


def shipped_file(of: SealedTableFile, content: bytes) -> ShippedFile:
    """Returns the entry of a receipt for a file with this CONTENT."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    rows = pq.read_metadata(pa.BufferReader(content)).num_rows
    digest, name = hashlib.sha256(content).hexdigest(), of.file.name
    return ShippedFile(of.table, of.key, len(content), digest, rows, name.first_ns, name.last_ns)
