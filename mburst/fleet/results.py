"""Results of `mburst fleet detect`: the layout of their folder or bucket, and the files that count.

    mburst-results.json                                 the definition of bursts, common to all of them
    TABLE/date=DATE/rack=RACK/PARTITION.parquet         TABLE: bursts, senders, hours, histograms, contention, coverage,
                                                        queue_drops, verdicts, incomplete; with rows also bins, sources;
                                                        if switch ports were recorded also PORT_TABLES
    partitions/date=DATE/rack=RACK/PARTITION.plan.json  the plan of the detection (plan.py)
    partitions/date=DATE/rack=RACK/PARTITION.json       the record of it, written last, when the tables are there

PARTITION is `rack`, or `host-HOST` if the rack is divided by host. If more data has arrived, a partition is detected
again and its files are replaced. The rack of a row is only in the path; docs/fleet.md has the columns."""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import quote, unquote

from ..analysis.bursts.find import BurstDefinition
from ..analysis.partition.detect import PortTables
from ..errors import MburstError, UsageError
from ..sql.format.filenames import rack_folder
from ..sql.store import MARKER as STORE_MARKER
from ..typed import is_typed
from .target import FleetTarget, NoSuchObject

if TYPE_CHECKING:
    import pyarrow as pa

MARKER, FORMAT = "mburst-results.json", 1
TABLES = ("bursts", "senders", "hours", "histograms", "contention", "coverage", "queue_drops", "verdicts", "incomplete")
PORT_TABLES = PortTables._fields  # in partitions with recordings of switch ports
PARTITIONS = "partitions"
WHOLE_RACK = "rack"  # name of the partition of all hosts of a rack
_PLAN = ".plan.json"


class PartitionName(NamedTuple):
    """A date (2026-11-20, UTC), a rack, and a host in it; None: all hosts."""

    date: str
    rack: str
    host: str | None

    def __str__(self) -> str:
        return f"{self.date} rack {self.rack}" + (f" host {self.host}" if self.host is not None else "")

    @property
    def folder(self) -> str:
        """The partition's folder below that of a table."""
        return f"date={self.date}/{rack_folder(self.rack)}"

    @property
    def stem(self) -> str:
        """The partition's name in that folder."""
        return WHOLE_RACK if self.host is None else f"host-{quote(self.host, safe='')}"

    def key(self, table: str) -> str:
        """Returns the key of the partition's rows of TABLE."""
        return f"{table}/{self.folder}/{self.stem}.parquet"

    @property
    def plan_key(self) -> str:
        """The key of the partition's plan."""
        return f"{PARTITIONS}/{self.folder}/{self.stem}{_PLAN}"

    @classmethod
    def of_plan(cls, key: str) -> PartitionName:
        """Returns the partition with the plan KEY."""
        return _partition(key.split("/")[1].removeprefix("date="), key, _PLAN)

    @property
    def record_key(self) -> str:
        """The key of the partition's record."""
        return f"{PARTITIONS}/{self.folder}/{self.stem}.json"


class PartitionRecord(NamedTuple):
    """The record of a partition's detection.

    digest: the digest of the plan, by which a second run knows that the partition is done. unsettled: writers of
    recordings of which another row may still change the result. complete: whether every host had shipped all of the
    day. behind: hosts that had not, each with the time until which it had shipped (None: never). missing: what was
    never shipped, such as damaged files. size: bytes of `files`. rows, sha256: of each table. switch_ports: number of
    recordings of switch ports; older versions of mburst left them out and wrote no PORT_TABLES. unfit_ports: number of
    recordings that were left out because they cannot be examined (analysis/partition)."""

    date: str
    rack: str
    host: str | None
    digest: str
    version: str
    complete: bool
    behind: dict[str, int | None]
    missing: list[str]
    files: int
    size: int
    rows: dict[str, int]
    sha256: dict[str, str]
    cpu_s: float
    unsettled: Sequence[str] = ()
    switch_ports: int = 0
    unfit_ports: int = 0

    @property
    def tables(self) -> tuple[str, ...]:
        """The tables that the partition must have, including those of switch ports if it has them."""
        return TABLES + tuple(table for table in PORT_TABLES if table in self.sha256)

    @property
    def lacks_tables(self) -> bool:
        """Whether an older version of mburst, which left out switch ports or a table, wrote the record."""
        lacks_ports = self.switch_ports > 0 and not self.rows.keys() & {*PORT_TABLES}
        return lacks_ports or not self.sha256.keys() >= {*TABLES}

    @property
    def name(self) -> PartitionName:
        """The name of the partition."""
        return PartitionName(self.date, self.rack, self.host)

    def to_json(self) -> bytes:
        """Returns the content of the record's object."""
        facts = {"format": FORMAT, **self._asdict()}
        return (json.dumps(facts, ensure_ascii=False, indent=0, sort_keys=True) + "\n").encode("utf-8", "surrogatepass")

    @classmethod
    def from_json(cls, place: str, content: bytes) -> PartitionRecord:
        """Returns the record in an object. Raises DamagedRecord, which names PLACE."""
        try:
            facts = json.loads(content.decode("utf-8", "surrogatepass"))
            if facts.pop("format") != FORMAT:
                raise ValueError
            record = cls(**facts)
            if not is_typed(record):
                raise ValueError
            return record
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            raise DamagedRecord(f"{place}: damaged: not the record of a partition", "detect again") from None


class DamagedRecord(MburstError):
    """A record that does not say what was written."""


class DividedOtherwise(MburstError):
    """A rack of a day has results of another division, which have the same rows."""


def open_results(results: FleetTarget, definition: BurstDefinition) -> None:
    """Begin results of DEFINITION, or continue existing ones. Raises UsageError if they have another definition, or if
    RESULTS has rows of stores or other content."""
    if results.holds(STORE_MARKER, b"") is not None:
        raise UsageError(f"{results.name}: has rows of stores, and no results", "name another place for results")
    wanted = _marker(definition)
    found = wanted
    if not results.put_new(MARKER, wanted):
        found = results.get(MARKER)
    if found != wanted:
        raise UsageError(
            f"{results.name}: has results of another definition of bursts: {definition_text(definition_of(results))}",
            "name another place, or the same options",
        )


def definition_of(results: FleetTarget) -> BurstDefinition:
    """Returns the definition of bursts of the results. Raises UsageError if there are none."""
    try:
        facts = json.loads(results.get(MARKER))
        if facts.pop("format") != FORMAT:
            raise ValueError
        definition = BurstDefinition(**facts["definition"])
        if not is_typed(definition):
            raise ValueError
        return definition
    except NoSuchObject:
        raise UsageError(f"{results.name}: no results", "`mburst fleet detect TARGET -o RESULTS` makes them") from None
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, UsageError):
        raise MburstError(f"{results.place(MARKER)}: damaged, or of a newer mburst") from None


def is_results(target: FleetTarget) -> bool:
    """Whether TARGET has results. A target that cannot be read counts as one without; the next operation reports the
    error."""
    try:
        definition_of(target)
    except MburstError:
        return False
    return True


def definition_text(definition: BurstDefinition) -> str:
    """Returns a definition as one line: the values that differ from the defaults."""
    given = {name: value for name, value in asdict(definition).items() if value != getattr(BurstDefinition(), name)}
    return ", ".join(f"{name} {value}" for name, value in given.items()) or "the default"


def _marker(definition: BurstDefinition) -> bytes:
    return (json.dumps({"format": FORMAT, "definition": asdict(definition)}, sort_keys=True) + "\n").encode()


def read_record(results: FleetTarget, name: PartitionName) -> PartitionRecord | None:
    """Returns the record of a partition, None if it was not detected. Raises TargetError, and DamagedRecord."""
    place = results.place(name.record_key)
    try:
        record = PartitionRecord.from_json(place, results.get(name.record_key))
    except NoSuchObject:
        return None
    if record.name != name:
        raise DamagedRecord(f"{place}: damaged: the record of another partition, {record.name}", "detect again")
    return record


def recorded(results: FleetTarget, name: PartitionName) -> tuple[PartitionRecord | None, DamagedRecord | None]:
    """Returns the same, or why the record is none. Raises TargetError."""
    try:
        return read_record(results, name), None
    except DamagedRecord as error:
        return None, error


def sound_record(results: FleetTarget, name: PartitionName) -> PartitionRecord | None:
    """Returns the same, and None also if the record is damaged. Raises TargetError."""
    return recorded(results, name)[0]


def list_records(results: FleetTarget, date: str, rack: str | None = None) -> Iterator[PartitionName]:
    """Yields the partitions of a date, or of one rack, that were detected, by rack and host."""
    folder = f"{PARTITIONS}/date={date}/" + (f"{rack_folder(rack)}/" if rack is not None else "")
    for stored in results.list(folder):
        if stored.key.endswith(".json") and not stored.key.endswith(_PLAN):
            yield _partition(date, stored.key, ".json")


def check_division(results: FleetTarget, name: PartitionName) -> None:
    """Raise DividedOtherwise if the rack of a partition was detected by host and the partition is the whole rack, or
    the other way around. Raises TargetError."""
    other = next((one for one in list_records(results, name.date, name.rack) if divide_otherwise(one, name)), None)
    if other is not None and name.host is None:
        raise DividedOtherwise(
            f"{results.name}: {other} was detected meanwhile, so that rack {name.rack} is divided by host",
            f"remove {name.plan_key}, and {name.record_key} if it is there, and detect again",
        )
    if other is not None:
        raise DividedOtherwise(
            f"{results.name}: rack {name.rack} of {name.date} is not divided by host",
            "detect it with `mburst fleet detect --split host` into a place of its own",
        )


def divide_otherwise(one: PartitionName, other: PartitionName) -> bool:
    """Whether one of two partitions of a rack's day is the whole rack, and the other one is not."""
    return one[:2] == other[:2] and (one.host is None) != (other.host is None)


def list_plans(results: FleetTarget, date: str) -> Iterator[PartitionName]:
    """Yields the partitions of a date that were planned, whether they were detected or not."""
    for stored in results.list(f"{PARTITIONS}/date={date}/"):
        if stored.key.endswith(_PLAN):
            yield _partition(date, stored.key, _PLAN)


def _partition(date: str, key: str, suffix: str) -> PartitionName:
    """Returns the partition of an object, by its key."""
    *_, of_rack, name = key.split("/")
    stem = name.removesuffix(suffix)
    host = None if stem == WHOLE_RACK else unquote(stem.removeprefix("host-"))
    return PartitionName(date, unquote(of_rack.removeprefix("rack=")), host)


class NearRows:
    """The bins and senders near bursts, as files. Detection hands them over in batches, which are never all in
    memory."""

    def __init__(self) -> None:
        self.rows: dict[str, int] = {}
        self.contents: dict[str, bytes] = {}

    def take(self, table: str, batches: pa.RecordBatchReader) -> None:
        """Make a file of the rows of TABLE."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        schema = pa.schema([_signed(field) for field in batches.schema if field.name != "rack"])
        sink, count = io.BytesIO(), 0
        with pq.ParquetWriter(sink, schema, compression="zstd") as writer:
            for batch in batches:
                writer.write_table(pa.Table.from_batches([batch]).select(schema.names).cast(schema))
                count += batch.num_rows
        self.rows[table], self.contents[table] = count, sink.getvalue()

    def put(self, results: FleetTarget, name: PartitionName) -> dict[str, str]:
        """Write the files of a partition, and return the SHA-256 of each."""
        for table, content in self.contents.items():
            results.replace(name.key(table), content)
        return {table: hashlib.sha256(content).hexdigest() for table, content in self.contents.items()}


def _signed(field: pa.Field) -> pa.Field:
    """Returns a field that engines without unsigned integers can read."""
    import pyarrow as pa

    wider = {pa.uint8(): pa.int32(), pa.uint16(): pa.int32(), pa.uint32(): pa.int64(), pa.uint64(): pa.int64()}
    return field.with_type(wider.get(field.type, field.type))


def put_tables(results: FleetTarget, name: PartitionName, tables: Mapping[str, pa.Table]) -> dict[str, str]:
    """Write the tables of a partition, and return the SHA-256 of each. Equal tables give equal bytes."""
    found = {}
    for table, rows in tables.items():
        content = as_parquet(rows.drop_columns(["rack"]))
        results.replace(name.key(table), content)
        found[table] = hashlib.sha256(content).hexdigest()
    return found


def as_parquet(rows: pa.Table) -> bytes:
    """Returns a table as a Parquet file."""
    import pyarrow.parquet as pq

    sink = io.BytesIO()
    pq.write_table(rows, sink, compression="zstd")
    return sink.getvalue()
