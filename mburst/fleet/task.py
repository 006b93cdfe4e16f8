"""One partition from beginning to end: fetch its files, verify them, detect, and put its results. It knows no engine: a
process of this machine runs it, or a task of Spark."""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from .. import shortage
from ..analysis.partition.detect import BurstBeyond, DetectedPartition, TakeRows, detect
from ..errors import MburstError
from .plan import NEAR_NS, PartitionPlan, read_plan
from .receipts import ShippedFile
from .results import TABLES, NearRows, PartitionName, PartitionRecord, put_tables, read_record
from .target import FleetTarget, TargetError, open_target
from .verdicts import no_verdicts, verdicts_of

if TYPE_CHECKING:
    import pyarrow as pa

_THREADS = 4  # that fetch files


class PartitionOutcome(NamedTuple):
    """What became of a partition: `error`, in one line, or ''. Plain values, so that any engine can carry them."""

    date: str
    rack: str
    host: str  # '' of a whole rack
    error: str
    complete: bool
    bursts: int
    files: int
    size: int
    cpu_s: float
    seconds: float
    port_bursts: int
    switch_ports: int  # recordings in which these were detected
    unfit_ports: int  # recordings of switch ports, left out

    @property
    def name(self) -> PartitionName:
        """Which partition it is of."""
        return PartitionName(self.date, self.rack, self.host or None)


def carry_out(target_address: str, results_address: str, plan_key: str, scratch: str | None = None) -> PartitionOutcome:
    """Detect the partition whose plan is PLAN_KEY of the results. Files lie below SCRATCH meanwhile (None: the folder
    of temporary files). Raises MburstError where the plan cannot be read; what else fails is in the outcome, and costs
    this partition alone."""
    target, results = open_target(target_address), open_target(results_address)
    plan = read_plan(results, plan_key)
    begun, used = time.monotonic(), time.process_time()
    error, record = "", None
    try:
        with tempfile.TemporaryDirectory(prefix="mburst-fleet-", dir=scratch) as folder:
            found = _detect(target, plan, Path(folder))
            verdicts = _verdicts(target, plan, Path(folder))
        record = put(results, plan, found, time.process_time() - used, verdicts=verdicts)
    except Exception as failure:  # of a library, of whatever kind: the other partitions do not need this one
        error = _in_one_line(failure)
    name = plan.name
    return PartitionOutcome(
        name.date,
        name.rack,
        name.host or "",
        error,
        bool(record and record.complete),
        record.rows["bursts"] if record else 0,
        len(plan.fetched),
        plan.size,
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
    """What there is in a partition; of all the files that are known where its bursts go on beyond the near ones. Raises
    MburstError."""
    return detected(plan, lambda files: fetch(target, files, folder), folder)


def _verdicts(target: FleetTarget, plan: PartitionPlan, folder: Path) -> pa.Table:
    """What investigations of its hosts say; `near` is there by now. Raises MburstError."""
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
    """The same of files that FETCHED gives the paths of, by table; TAKE: as in detect. Raises MburstError."""
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
    """Copies of FILES below FOLDER, by table, under their paths in a store; each has the SHA-256 that its receipt
    states. Raises MburstError that names one that is missing or has other content."""
    wanted = list(files)
    for parent in {(folder / file.key).parent for file in wanted}:
        parent.mkdir(parents=True, exist_ok=True)
    with ThreadPoolExecutor(_THREADS) as pool:
        list(pool.map(lambda file: _fetch(target, file, folder / file.key), wanted))
    return _copies(wanted, folder)


def _copies(files: Iterable[ShippedFile], folder: Path) -> dict[str, list[Path]]:
    """Where copies of FILES are, by table."""
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
    """Write the tables, and the rows NEAR bursts where they are wanted, and then the record that says that they are
    there. VERDICTS: None for no row. Tables of switch ports are there where the partition has any, or had: they are
    emptied then. Raises TargetError, and MburstError where a record that is there is damaged."""
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
    """The rows of each table of results, also of those without a row; of switch ports WITH_PORTS. VERDICTS as for
    `put`."""
    tables = found.tables
    if plan.name.host is not None:  # of one host alone, it would read as a rack's
        tables = tables._replace(contention=tables.contention.slice(0, 0))
    of_ports = found.ports._asdict() if with_ports else {}
    verdicts = no_verdicts() if verdicts is None else verdicts
    return {**tables._asdict(), "incomplete": _incomplete(plan), "verdicts": verdicts, **of_ports}


def _behind(plan: PartitionPlan, host: str) -> str:
    """Why something of a host that ships has not arrived."""
    return "collector behind" if host in plan.collectors else "behind"


def _has_ports(results: FleetTarget, name: PartitionName) -> bool:
    """Whether tables of switch ports are there from before."""
    record = read_record(results, name)
    return record is not None and len(record.tables) > len(TABLES)


def _incomplete(plan: PartitionPlan) -> pa.Table:
    """What has not arrived: a row for each host that is behind, with how much of the day that is (NULL: it has never
    shipped), and for each thing that was never shipped. No row: the partition is complete."""
    import pyarrow as pa

    day = plan.until_ns - plan.since_ns
    rows = [
        (plan.name.rack, host, plan.since_ns, None, "never shipped")
        if until is None
        else (plan.name.rack, host, plan.since_ns, min(max(plan.until_ns - until, 0), day), _behind(plan, host))
        for host, until in sorted(plan.behind.items())
    ] + [(plan.name.rack, None, plan.since_ns, None, reason) for reason in plan.missing]
    schema = {"rack": pa.string(), "host": pa.string(), "day_ns": pa.int64(), "behind_ns": pa.int64()}
    names = (*schema, "reason")
    return pa.Table.from_pylist(
        [dict(zip(names, row, strict=True)) for row in rows], pa.schema({**schema, "reason": pa.string()})
    )
