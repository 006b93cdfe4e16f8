"""What the plan of a partition is, and which files it needs. planning.py makes the plans of a day.

The plan of a partition is an object of the results. Its digest covers everything that decides the result: the
definition, the files with their SHA-256, what is missing, and the version of mburst. A partition is done if its record
has this digest. A running recorder writes a row about its recording every 15 minutes. Files with such rows count in the
digest only while the recording may still get an end in the day or after it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from .. import __version__
from ..analysis.bursts.find import BurstDefinition
from ..errors import MburstError, UsageError
from ..sql.format.filenames import SealedName
from ..sql.tables import RECORDED
from ..typed import is_typed
from ..units import NS_PER_DAY, NS_PER_MINUTE, format_time
from .receipts import ShippedFile
from .results import PartitionName, PartitionRecord
from .target import FleetTarget, NoSuchObject, TargetError

NEAR_NS = 20 * NS_PER_MINUTE  # added before and after the day: longer than a recorder takes to seal a segment
STATED = ("recordings", "canary")  # tables in which bursts are detected, in addition to RECORDED
SWITCH, LINKS = "queues", "links"  # tables of switches: drops during bursts, for the hosts that links name
PROBES = "probes"  # verdicts need rows in this table
INVESTIGATED = (PROBES, "gaps", "ports", SWITCH, LINKS)  # tables that verdicts need in addition to those of detection


@dataclass(frozen=True)
class PartitionPlan:
    """The plan of a partition's detection. `near` are the files of the day and of NEAR_NS around it. `further` are the
    other files in the receipts that were read, for bursts that continue beyond. `behind` and `missing` are as in
    results.PartitionRecord. `collectors` are hosts in `behind` that ship data of switches and no recording of their
    own. `removed` are hosts in `behind` that the inventory removes during the day, each with that time. `with_rows`
    asks for the bins and senders near bursts as well, and `with_verdicts` for verdicts (verdicts.py), for which the
    files in `evidence` are fetched; there are none if the day has no probes."""

    name: PartitionName
    definition: BurstDefinition
    since_ns: int
    until_ns: int
    near: tuple[ShippedFile, ...]
    further: tuple[ShippedFile, ...] = ()
    behind: Mapping[str, int | None] = field(default_factory=dict)
    missing: tuple[str, ...] = ()
    collectors: tuple[str, ...] = ()
    removed: Mapping[str, int] = field(default_factory=dict)
    version: str = __version__
    with_rows: bool = False
    with_verdicts: bool = False
    evidence: tuple[ShippedFile, ...] = ()

    @property
    def fetched(self) -> tuple[ShippedFile, ...]:
        """The files that are always read; `further` is read only if a burst continues beyond `near`."""
        return (*self.near, *(self.evidence if self.with_verdicts else ()))

    @property
    def size(self) -> int:
        """Bytes of `fetched`."""
        return sum(file.bytes for file in self.fetched)

    def digest(self, unsettled: Collection[str]) -> str:
        """Returns a digest of everything that decides the result, if only rows about recordings of the writers
        UNSETTLED can still change it."""
        decides = [file for file in self.near if file.table != "recordings" or writer_of(file) in unsettled]
        evidence = tuple(file for file in self.evidence if file.table != "recordings")
        facts = replace(self, near=tuple(decides), evidence=evidence)._facts()
        facts.pop("further")
        return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()

    def is_done(self, record: PartitionRecord) -> bool:
        """Whether RECORD is the result of this plan, or of this plan with more tables."""
        return self.gives(record.digest, record.unsettled) and not record.lacks_tables

    def gives(self, digest: str, unsettled: Collection[str]) -> bool:
        """Whether DIGEST is that of this plan, or of this plan with rows or with verdicts in addition."""
        rows, verdicts = {self.with_rows, True}, {self.with_verdicts, True}
        return any(
            digest == replace(self, with_rows=row, with_verdicts=verdict).digest(unsettled)
            for row in rows
            for verdict in verdicts
        )

    def differs_from(self, before: PartitionPlan) -> tuple[list[ShippedFile], list[ShippedFile]]:
        """The files that BEFORE has and this plan has not, and those that it has more: of `near`, and of `evidence` if
        it is read, but for rows about recordings, which a recorder writes again and again. A part of a segment that was
        written again is the same."""
        here, there = (
            {
                _part_of(file): file
                for file in (*of.near, *(of.evidence if before.with_verdicts else ()))
                if file.table != "recordings"
            }
            for of in (self, before)
        )
        gone = [file for part, file in there.items() if part not in here]
        evidence = self.evidence if self.with_verdicts and not before.with_verdicts else ()
        return gone, [*(file for part, file in here.items() if part not in there), *evidence]

    def _facts(self) -> dict[str, Any]:
        return {
            **{name: getattr(self, name) for name in ("since_ns", "until_ns", "missing", "version")},
            "name": list(self.name),
            "definition": asdict(self.definition),
            "near": [list(file) for file in self.near],
            "further": [list(file) for file in self.further],
            "behind": dict(self.behind),
            **({"collectors": list(self.collectors)} if self.collectors else {}),
            **({"removed": dict(self.removed)} if self.removed else {}),
            **({"with_rows": True} if self.with_rows else {}),
            **(
                {"with_verdicts": True, "evidence": [list(file) for file in self.evidence]}
                if self.with_verdicts
                else {}
            ),
        }

    def to_json(self) -> bytes:
        """Returns the content of the plan's object."""
        return json.dumps(self._facts(), sort_keys=True).encode()

    @classmethod
    def from_json(cls, content: bytes) -> PartitionPlan:
        """Returns the plan in an object. Raises ValueError if it is not a plan."""
        files = ("near", "further", "evidence")
        try:
            facts = json.loads(content)
            near, further, evidence = (tuple(ShippedFile(*file) for file in facts.pop(of, ())) for of in files)
            name, definition = PartitionName(*facts.pop("name")), BurstDefinition(**facts.pop("definition"))
            lists: dict[str, Any] = {of: tuple(facts.pop(of, ())) for of in ("missing", "collectors")}
            plan = cls(name, definition, near=near, further=further, evidence=evidence, **lists, **facts)
        except (KeyError, TypeError, AttributeError, RecursionError, UsageError) as error:
            raise ValueError("not a plan") from error
        if not is_typed(plan):
            raise ValueError("not a plan")
        return plan


def read_plan(results: FleetTarget, key: str) -> PartitionPlan:
    """Returns the plan with the key KEY in RESULTS. Raises MburstError."""
    try:
        return PartitionPlan.from_json(results.get(key))
    except ValueError as error:
        raise MburstError(f"{results.place(key)}: damaged: not the plan of a partition", "detect again") from error


def differences(
    results: FleetTarget, plan: PartitionPlan, record: PartitionRecord | None
) -> tuple[list[ShippedFile], list[ShippedFile]]:
    """The files that RECORD was made of and PLAN has not, and those that PLAN has more. If RECORD is None, it is
    damaged, and the newest plan says what it was made of. Raises TargetError."""
    try:
        before = read_plan(results, plan.name.plan_key)
    except MburstError as error:
        if isinstance(error, TargetError) and not isinstance(error, NoSuchObject):
            raise
        return [], []
    gone, more = plan.differs_from(before)
    is_of_it = record is not None and before.gives(record.digest, record.unsettled)
    return gone, more if is_of_it else list(plan.near)  # else it may be of another


def day_of(text: str, now_ns: int) -> str:
    """Returns the date that TEXT names; `last` is the last whole day (UTC). Raises UsageError."""
    if text == "last":
        return date_of(now_ns - NS_PER_DAY)
    try:
        day = datetime.strptime(text, "%Y-%m-%d")
    except ValueError:
        raise UsageError(f"invalid day {text!r}", "examples: last, 2026-11-20") from None
    if not 1970 <= day.year < 2100:  # packets of other years are in no bin
        raise UsageError(f"invalid day {text!r}: not of the years 1970 to 2099", "examples: last, 2026-11-20")
    return day.strftime("%Y-%m-%d")


def date_of(ts_ns: int) -> str:
    """Returns the date (UTC) of a time."""
    return datetime.fromtimestamp(ts_ns // 10**9, UTC).strftime("%Y-%m-%d")


def start_of(date: str) -> int:
    """Returns the start of a date (UTC) in Unix nanoseconds."""
    return int(datetime.strptime(date, "%Y-%m-%d").replace(tzinfo=UTC).timestamp()) * 10**9


def planned(
    name: PartitionName,
    definition: BurstDefinition,
    files: Iterable[ShippedFile],
    behind: Mapping[str, int | None],
    missing: Iterable[str],
    investigated: Iterable[ShippedFile] = (),
    with_verdicts: bool = False,
) -> PartitionPlan:
    """Returns the plan of a partition. Its hosts have FILES, of any days, and everything else except MISSING: lines
    with a reason, which begin with the key of the file if a file is missing. INVESTIGATED are files of these hosts, and
    files without a host, whoever shipped them."""
    since, until = start_of(name.date), start_of(name.date) + NS_PER_DAY
    ordered = sorted(files, key=lambda file: file.key)
    lacking = {line: lacking_file(line) for line in missing}
    lost = [file for file in lacking.values() if file]
    near = {file.key for file in _near([*ordered, *lost], since, until)}
    beside = {file.key: file for file in _evidence([*investigated, *lost], since, until) if file.key not in near}
    stated = near | (beside.keys() if with_verdicts else set())
    return PartitionPlan(
        name,
        definition,
        since,
        until,
        near=tuple(file for file in ordered if file.key in near),
        further=tuple(file for file in ordered if file.key not in near and file.key not in stated),
        behind=behind,
        missing=tuple(sorted(line for line, file in lacking.items() if file is None or file.key in stated)),
        with_verdicts=with_verdicts and bool(beside),
        evidence=tuple(file for key, file in sorted(beside.items()) if file.sha256),
    )


def lacking_file(line: str) -> ShippedFile | None:
    """Returns the file that a line in `missing` begins with. Its size and content are not known."""
    key = line.partition(": ")[0]
    name = SealedName.parse(key.rpartition("/")[2])
    return ShippedFile(key.partition("/")[0], key, 0, "", 0, name.first_ns, name.last_ns) if name else None


def compacted_of(whose: str, compacted_ns: tuple[int, int] | None, since_ns: int) -> Iterator[str]:
    """Yields a line on rows of the day from SINCE_NS on, or of NEAR_NS around it, that were compacted before they were
    shipped. COMPACTED_NS is that of a receipt."""
    if compacted_ns and compacted_ns[0] < since_ns + NS_PER_DAY + NEAR_NS and compacted_ns[1] >= since_ns - NEAR_NS:
        first, last = map(format_time, compacted_ns)
        yield f"{whose}: rows from {first} to {last} were compacted before they were shipped"


def host_of(file: ShippedFile) -> str | None:
    """Returns the recording host of a file, or None if it has none."""
    name = SealedName.parse(file.key.rpartition("/")[2])
    return name.segment.host if name else None


def writer_of(file: ShippedFile) -> str | None:
    """Who wrote a file: a call of `mburst record`, or of another verb."""
    name = SealedName.parse(file.key.rpartition("/")[2])
    return name.segment.writer if name else None


def needed_from(files: Iterable[ShippedFile], since_ns: int) -> Iterator[ShippedFile]:
    """Those of FILES that a day may take that begins at SINCE_NS or later. A recorder that goes on writes more rows
    about its recordings."""
    for file in files:
        by_ns = 2 * NS_PER_DAY if file.table in ("recordings", LINKS) else NEAR_NS
        if file.max_ns >= since_ns - by_ns:
            yield file


def _part_of(file: ShippedFile) -> tuple[str, ...]:
    name = SealedName.parse(file.key.rpartition("/")[2])
    return (file.table, name.segment.name, str(name.part)) if name else (file.table, file.key)


def _evidence(files: Iterable[ShippedFile], since_ns: int, until_ns: int) -> list[ShippedFile]:
    """Returns the files that an investigation of the span reads, or none if there are no probes in it."""
    files = list(files)
    if not any(file.table == PROBES and file.min_ns < until_ns and file.max_ns >= since_ns for file in files):
        return []
    return _near(files, since_ns, until_ns, INVESTIGATED)


def _near(files: Iterable[ShippedFile], since_ns: int, until_ns: int, more: tuple[str, ...] = ()) -> list[ShippedFile]:
    """Returns the files that the detection of a span needs: bins, senders and canary bursts of the span and NEAR_NS
    around it; rows about recordings written within two days of it or by the same writers (a recorder writes one with
    each segment); links of the day and of the two days before (a collector writes them every hour); and, if links are
    known, windows of queues. MORE names further tables of which files of that time are needed."""
    files = list(files)

    def reach(file: ShippedFile, by_ns: int) -> bool:
        return file.min_ns < until_ns + by_ns and file.max_ns >= since_ns - by_ns

    measured = [file for file in files if file.table in (*RECORDED, "canary", *more) and reach(file, NEAR_NS)]
    writers = {writer_of(file) for file in measured}
    stated = [file for file in files if file.table == "recordings"]
    links = [file for file in files if file.table == LINKS and reach(file, 2 * NS_PER_DAY) and file.min_ns < until_ns]
    queues = [file for file in files if links and file.table == SWITCH and reach(file, NEAR_NS)]
    about = [file for file in stated if reach(file, 2 * NS_PER_DAY) or writer_of(file) in writers]
    return [*measured, *about, *links, *queues]
