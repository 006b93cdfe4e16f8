"""The task of one partition: fetch its files, verify them, detect, and put the results. It is independent of the engine
and runs in a process of this machine or in a task of Spark."""

from __future__ import annotations

import hashlib
import os
import shutil
import time
from collections import defaultdict
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from .. import temporary
from ..analysis.partition.detect import BurstBeyond, DetectedPartition, TakeRows, detect
from ..errors import MburstError
from ..process import shortage
from .plan import NEAR_NS, PartitionPlan, read_plan
from .receipts import ShippedFile
from .results import (
    PORT_TABLES,
    TABLES,
    NearRows,
    PartitionName,
    PartitionRecord,
    check_division,
    put_tables,
    sound_record,
)
from .target import FleetTarget, TargetError, open_target
from .verdicts import no_verdicts, verdicts_of

if TYPE_CHECKING:
    import pyarrow as pa

_THREADS = 4  # threads that fetch files


class PartitionOutcome(NamedTuple):
    """The outcome of a partition. `error` is one line, or ''. All values are plain, so that any engine can transfer
    them."""

    date: str
    rack: str
    host: str  # '' for a whole rack
    error: str
    complete: bool
    bursts: int
    files: int
    size: int
    cpu_s: float
    seconds: float
    port_bursts: int
    switch_ports: int  # recordings of switch ports with port bursts detected
    unfit_ports: int  # recordings of switch ports that were left out

    @property
    def name(self) -> PartitionName:
        """The name of the partition."""
        return PartitionName(self.date, self.rack, self.host or None)


def carry_out(target_address: str, results_address: str, plan_key: str, scratch: str | None = None) -> PartitionOutcome:
    """Detect the partition with the plan PLAN_KEY in the results. Copies of files are below SCRATCH (None: the folder
    of temporary files) for this time. Raises MburstError if an address cannot be opened. Any other error is in the
    outcome and affects only this partition."""
    target, results = open_target(target_address), open_target(results_address)
    begun, used = time.monotonic(), time.process_time()
    error, plan, record = "", None, None
    try:
        plan = read_plan(results, plan_key)
        with temporary.folder("mburst-fleet-", scratch) as folder:
            found = _detect(target, plan, Path(folder))
            verdicts = _verdicts(target, plan, Path(folder))
        record = put(results, plan, found, time.process_time() - used, verdicts=verdicts)
    except Exception as failure:  # of any kind, from any library: the other partitions do not depend on this one
        error = _in_one_line(failure)
    name = PartitionName.of_plan(plan_key)
    return PartitionOutcome(
        name.date,
        name.rack,
        name.host or "",
        error,
        bool(record and record.complete),
        record.rows["bursts"] if record else 0,
        len(plan.fetched) if plan else 0,
        plan.size if plan else 0,
        round(time.process_time() - used, 3),
        round(time.monotonic() - begun, 3),
        record.rows.get("port_bursts", 0) if record else 0,
        record.switch_ports if record else 0,
        record.unfit_ports if record else 0,
    )


def _in_one_line(failure: Exception) -> str:
    known = failure if isinstance(failure, MburstError) else shortage.of(failure)
    if known is None:
        return f"{type(failure).__name__}: {(str(failure).strip() or '?').splitlines()[0]}"
    return f"{known}" + (f" ({known.hint})" if known.hint else "")


def _detect(target: FleetTarget, plan: PartitionPlan, folder: Path) -> DetectedPartition:
    """Detect a partition. If a burst continues beyond the near files, all known files are read. Raises MburstError."""
    return detected(plan, lambda files: fetch(target, files, folder), folder)


def _verdicts(target: FleetTarget, plan: PartitionPlan, folder: Path) -> pa.Table:
    """Returns the verdicts of investigations of the partition's hosts; the files in `near` are already there. Raises
    MburstError."""
    if not (plan.with_verdicts and plan.evidence):
        return no_verdicts()
    fetch(target, plan.evidence, folder)
    return verdicts_of(plan, _copies(plan.fetched, folder), folder)


def detected(
    plan: PartitionPlan,
    fetched: Callable[[Iterable[ShippedFile]], dict[str, list[Path]]],
    scratch: Path,
    take: TakeRows | None = None,
) -> DetectedPartition:
    """Detect a partition in files, of which FETCHED returns the paths by table; TAKE is as in detect. If a burst
    continues beyond the near files, all known files are used. Raises MburstError."""
    since, until = plan.since_ns, plan.until_ns
    files = fetched(plan.near)
    asked: dict[str, Any] = {"since_ns": since, "until_ns": until, "scratch": scratch, "take": take}
    try:
        return detect(files, plan.definition, held_ns=NEAR_NS, **asked)
    except BurstBeyond:
        for table, more in fetched(plan.further).items():
            files.setdefault(table, []).extend(more)
        return detect(files, plan.definition, **asked)


def fetch(target: FleetTarget, files: Iterable[ShippedFile], folder: Path) -> dict[str, list[Path]]:
    """Copy FILES below FOLDER under their paths in a store, and return the copies by table. Each is verified by the
    SHA-256 in its receipt. Raises MburstError, which names the file that is missing or differs."""
    wanted = list(files)
    for parent in {(folder / file.key).parent for file in wanted}:
        parent.mkdir(parents=True, exist_ok=True)
    with ThreadPoolExecutor(_THREADS) as pool:
        list(pool.map(lambda file: _fetch(target, file, folder / file.key), wanted))
    return _copies(wanted, folder)


def _copies(files: Iterable[ShippedFile], folder: Path) -> dict[str, list[Path]]:
    """Returns the paths of copies of FILES by table."""
    found: dict[str, list[Path]] = defaultdict(list)
    for file in files:
        found[file.table].append(folder / file.key)
    return dict(found)


def _fetch(target: FleetTarget, file: ShippedFile, path: Path) -> None:
    if not _is_inside(file.key):
        raise TargetError(f"{target.name}: invalid key {file.key!r} in a receipt")
    digest = hashlib.sha256()
    try:
        with path.open("xb") as copy:
            for piece in target.pieces(file.key):
                digest.update(piece)
                copy.write(piece)
    except OSError as error:
        raise MburstError(f"{path}: cannot write: {error.strerror}", f"free: {_free(path.parent)}") from error
    if digest.hexdigest() != file.sha256:
        raise TargetError(
            f"{target.place(file.key)}: damaged: the content does not have the SHA-256 that its receipt states"
        )


def _is_inside(key: str) -> bool:
    return not any(part in ("", ".", "..") or "\0" in part for part in key.split("/"))


def _free(folder: Path) -> str:
    with_room = folder if folder.exists() else folder.parent
    return f"{shutil.disk_usage(with_room).free >> 20:,} MB in {os.fspath(with_room)}"


def put(
    results: FleetTarget,
    plan: PartitionPlan,
    found: DetectedPartition,
    cpu_s: float,
    near: NearRows | None = None,
    verdicts: pa.Table | None = None,
) -> PartitionRecord:
    """Write the tables, the rows NEAR bursts if they are wanted, and then the record that confirms them. A VERDICTS of
    None means no rows. Tables of switch ports are written if the partition has any; if it only had some before, they
    are emptied. Raises TargetError, and DividedOtherwise if a host of the rack has shipped its bursts meanwhile."""
    check_division(results, plan.name)
    near = near or NearRows()
    with_ports = found.switch_ports > 0 or _has_ports(results, plan.name)
    by_name = tables_of(plan, found, verdicts, with_ports=with_ports)
    record = PartitionRecord(
        *plan.name,
        digest=plan.digest(found.unsettled),
        version=plan.version,
        complete=not plan.behind and not plan.missing,
        behind=dict(plan.behind),
        missing=list(plan.missing),
        files=len(plan.fetched),
        size=plan.size,
        rows={table: rows.num_rows for table, rows in by_name.items()} | near.rows,
        sha256=put_tables(results, plan.name, by_name) | near.put(results, plan.name),
        cpu_s=round(cpu_s, 3),
        unsettled=found.unsettled,
        switch_ports=found.switch_ports,
        unfit_ports=found.unfit_ports,
    )
    results.replace(plan.name.record_key, record.to_json())
    return record


def tables_of(
    plan: PartitionPlan, found: DetectedPartition, verdicts: pa.Table | None = None, *, with_ports: bool
) -> dict[str, pa.Table]:
    """Returns the rows of each table of results, also of empty tables, and of tables of switch ports if WITH_PORTS is
    true. VERDICTS is as in `put`."""
    tables = found.tables
    if plan.name.host is not None:  # contention of one host alone would look like that of a rack
        tables = tables._replace(contention=tables.contention.slice(0, 0))
    of_ports = found.ports._asdict() if with_ports else {}
    verdicts = no_verdicts() if verdicts is None else verdicts
    return {**tables._asdict(), "incomplete": _incomplete(plan), "verdicts": verdicts, **of_ports}


def _behind(plan: PartitionPlan, host: str) -> str:
    """Returns the reason why data of a host that ships has not arrived."""
    return "collector behind" if host in plan.collectors else "behind"


def _behind_ns(plan: PartitionPlan, host: str, until_ns: int) -> int:
    """Returns how much of the day has not arrived of HOST, which has shipped until UNTIL_NS."""
    end_ns = min(plan.until_ns, plan.removed.get(host, plan.until_ns))
    return max(end_ns - max(until_ns, plan.since_ns), 0)


def _has_ports(results: FleetTarget, name: PartitionName) -> bool:
    """Whether there are tables of switch ports from an earlier detection, whose record may have been removed."""
    record = sound_record(results, name)
    if record is None:
        return results.holds(name.key(PORT_TABLES[0]), b"") is not None
    return len(record.tables) > len(TABLES)


def _incomplete(plan: PartitionPlan) -> pa.Table:
    """Returns what has not arrived: a row for each host that is behind, with the missing part of the day (NULL: it has
    never shipped), and a row for each thing that was never shipped. Without a row the partition is complete."""
    import pyarrow as pa

    rows = [
        (plan.name.rack, host, plan.since_ns, None, "never shipped")
        if until is None
        else (plan.name.rack, host, plan.since_ns, _behind_ns(plan, host, until), _behind(plan, host))
        for host, until in sorted(plan.behind.items())
    ] + [(plan.name.rack, None, plan.since_ns, None, reason) for reason in plan.missing]
    schema = {"rack": pa.string(), "host": pa.string(), "day_ns": pa.int64(), "behind_ns": pa.int64()}
    names = (*schema, "reason")
    return pa.Table.from_pylist(
        [dict(zip(names, row, strict=True)) for row in rows], pa.schema({**schema, "reason": pa.string()})
    )
