"""The files of a store that are ready to be shipped: sealed files that can no longer change, by the host of their rows.

While the hot log of a segment exists, its sealed files may be written again, so they wait. Bins and senders also wait
if their writer has a recording with rows only in a hot log: without such a row, bursts would not be found in them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from ..errors import UsageError
from ..files import plain_name
from ..process import shortage
from ..sql import aside, locks, verified
from ..sql.damage import SECOND_COPY, DamagedFile
from ..sql.disk import failing_as_one_line
from ..sql.format.filenames import LONGEST_HOST, SealedName, Segment, may_be_cut, without_escape
from ..sql.format.hotlog import LogHeader, read_beginning, read_log
from ..sql.segments import (
    HELD_NS,
    FileSelection,
    Listing,
    SealedFile,
    damaged_file,
    list_hot,
    list_sealed,
    second_copies,
)
from ..sql.tables import LISTING, RECORDED, columns

UNNAMED = "unknown"  # the default of `mburst record` for host and rack
# Tables with rows in order of time. Rows of the other tables describe what was measured and may be written much later.
IN_ORDER_OF_TIME = frozenset(LISTING) - {"recordings", "gaps", "links", "canary", "names"}


class HostName(NamedTuple):
    """A host and its rack."""

    rack: str
    host: str

    def __str__(self) -> str:
        return f"host {self.host} in rack {self.rack}"


NO_NAME = HostName("", "")
CUT = f"names of files have at most {LONGEST_HOST} bytes of a host"  # why a fleet does not take the data of a host
NO_NAMES = "a fleet needs names"  # likewise


@dataclass(frozen=True)
class SealedTableFile:
    """A sealed file, and its table."""

    table: str
    file: SealedFile

    @property
    def key(self) -> str:
        """The path of the file in the store, which is also its key in a target."""
        return key_of(self.file.path)


def key_of(path: Path) -> str:
    """Returns the path in its store of a file in the place of a sealed file."""
    return "/".join(path.parts[-4:])


@dataclass
class HostFiles:
    """The files that a store has of a host. `hot_ns` has the earliest times of measurements that are not sealed, or
    wait. `recorded`: whether a recorder may be running. `set_aside` are sealed files that `mburst repair` moved
    away. `cut`: whether its name may be only the beginning of that of a host, or of several."""

    name: HostName
    files: list[SealedTableFile] = field(default_factory=list)
    damaged: list[DamagedFile] = field(default_factory=list)
    set_aside: list[DamagedFile] = field(default_factory=list)
    waiting: list[SealedTableFile] = field(default_factory=list)
    hot_ns: list[int] = field(default_factory=list)
    recorded: bool = False
    cut: bool = False

    @property
    def refused(self) -> str:
        """Why a fleet cannot take the data of this host, or ''. It cannot take data under the default names, which
        recordings have if no names are given, or under a name that other hosts may have, too."""
        if UNNAMED in self.name:
            return NO_NAMES
        return CUT if self.cut else ""

    @property
    def shown(self) -> str:
        """The host and its rack, for messages."""
        return str(self.name._replace(host=f"{without_escape(self.name.host)}…") if self.cut else self.name)

    def until_ns(self, now_ns: int) -> int:
        """Returns the time before which every measurement of the host is in `files`, or damaged. Later rows may be in
        hot logs or in a recorder's memory. If nothing is hot, it is the end of what was sealed. What is later than
        NOW_NS was stamped by a clock that was ahead, and says nothing."""
        sealed = [of.file.name.last_ns + 1 for of in self.files if of.table in IN_ORDER_OF_TIME]
        end_ns = max((ns for ns in sealed if ns <= now_ns), default=0)
        until = min((ns if ns <= now_ns else end_ns for ns in self.hot_ns), default=end_ns)
        return until - HELD_NS if until and (self.hot_ns or self.recorded) else until


@dataclass
class _TableFiles:
    """The files of a table at one moment: those that count and can no longer change, and the hot logs."""

    files: list[SealedFile]
    logs: dict[Path, Segment]
    damaged: list[DamagedFile]


def list_hosts(store: Path, tables: Collection[str], own: HostName) -> dict[HostName, HostFiles]:
    """Returns the files of TABLES and of recordings in the store at STORE, by host. OWN is the host and rack for files
    without one (probes, switch telemetry); '' in it stands for the only host or rack of the other files. Raises
    UsageError if these have several, and MburstError if folders cannot be listed."""
    recorded = bool(locks.names(store))
    with failing_as_one_line(store, "read"):
        found = {table: _list(store, table) for table in LISTING if table in tables or table == "recordings"}
        set_aside = aside.missing_files(store, lambda _: FileSelection())
    hosts = _Hosts(own, found)
    unrecorded = _unrecorded(found["recordings"])
    for table in reversed(found):  # recordings before the tables that need them
        for file in found[table].files:
            host = hosts.of(table, file.rack, file.name.segment.host)
            waits = table in RECORDED and file.name.segment.writer in unrecorded
            (host.waiting if waits else host.files).append(SealedTableFile(table, file))
            if waits:
                host.hot_ns.append(file.name.first_ns)
        for damaged in found[table].damaged:
            hosts.of(table, damaged.rack, damaged.host).damaged.append(damaged)
        for missing in set_aside.get(table, ()):
            name = SealedName.parse(Path(missing.path).name)
            if name is not None and not name.segment.compacted:  # compacted rows were shipped before
                hosts.of(table, missing.rack, missing.host).set_aside.append(missing)
    for table in IN_ORDER_OF_TIME & found.keys():
        _note_hot(table, found[table].logs, hosts)
    for host in hosts.by_name.values():
        host.recorded = recorded
        host.cut = hosts.is_cut(host)
    return hosts.by_name


def list_switch_files(store: Path, rack: str, own: HostName) -> tuple[list[SealedTableFile], list[DamagedFile]]:
    """Returns the links of RACK in the store at STORE and the queues of its switches, as far as they can no longer
    change, and those of them that are damaged or were set aside. OWN is as in list_hosts: switch queues belong to its
    rack. Raises MburstError."""
    with failing_as_one_line(store, "read"):
        links, queues = _list(store, "links"), _list(store, "queues")
        set_aside = aside.missing_files(store, lambda _: FileSelection())
    racks = {file.rack for file in links.files}
    files = [SealedTableFile("links", file) for file in links.files if file.rack == rack]
    damaged = [of for of in [*links.damaged, *set_aside.get("links", ())] if of.rack in ("", rack)]
    if (own.rack or (racks.pop() if len(racks) == 1 else "")) == rack:
        files += [SealedTableFile("queues", file) for file in queues.files]
        damaged += [*queues.damaged, *set_aside.get("queues", ())]
    return files, damaged


def _list(store: Path, table: str) -> _TableFiles:
    """List a table as segments.snapshot does, but leave out all files of a segment with a log, whatever the log
    contains."""
    before = list_hot(store, table)
    sealed = list_sealed(store, table, FileSelection())
    after = list_hot(store, table)
    logs = {**before.logs, **after.logs}
    hidden = {segment.name for segment in logs.values()}
    files = [
        file
        for file in sealed.files
        if file.name.segment.name not in hidden and not file.name.segment.compacted  # these were shipped before
    ]
    second = second_copies(files, verified.unverified)
    copies = [damaged_file(file, table, SECOND_COPY) for file in second]
    return _TableFiles([file for file in files if file not in second], logs, [*_damage(sealed, before), *copies])


def _damage(*listings: Listing) -> Iterator[DamagedFile]:
    for listing in listings:
        yield from listing.damage


def _unrecorded(recordings: _TableFiles) -> set[str]:
    """Returns the writers that have a recording with all its rows in hot logs. Only files of recorders that run or were
    killed are read, and these are few."""
    hot: dict[str, set[str]] = {}
    for path, segment in recordings.logs.items():
        hot.setdefault(segment.writer, set()).update(_hot_recordings(path))
    sealed: dict[str, set[str]] = {writer: set() for writer in hot}
    for file in recordings.files:
        if (writer := file.name.segment.writer) in hot:
            sealed[writer].update(_sealed_recordings(file.path))
    return {writer for writer, found in hot.items() if found - sealed[writer]}


def _hot_recordings(path: Path) -> Iterator[str]:
    """Yields the recordings with rows in a hot log. If the log cannot be read, or was sealed meanwhile, its content is
    not known: yields one recording without a name."""
    try:
        for batch in read_log(path).batches:
            yield from batch.column("recording_id").to_pylist()
    except OSError:
        yield ""


def _sealed_recordings(path: Path) -> list[str]:
    """Returns the recordings with rows in a sealed file; none if it is damaged."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        rows = pq.read_table(plain_name(path), columns=["recording_id"], partitioning=None)
        found: list[str] = rows.column(0).to_pylist()
        return found
    except (OSError, pa.ArrowException) as error:
        shortage.refuse(error, f"{path}: cannot read")
        return []


def _hosts_in(of: SealedTableFile) -> set[str]:
    """Returns the hosts of the rows of a sealed file; none if it is damaged."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    if "host" not in {column.name for column in columns(of.table)}:
        return set()
    try:
        return {*pq.read_table(plain_name(of.file.path), columns=["host"], partitioning=None).column(0).to_pylist()}
    except (OSError, pa.ArrowException) as error:
        shortage.refuse(error, f"{of.file.path}: cannot read")
        return set()


def _note_hot(table: str, logs: dict[Path, Segment], hosts: _Hosts) -> None:
    """Note from which time on the hot logs of TABLE have rows."""
    for path, segment in logs.items():
        about = first_ns = None
        with suppress(OSError):  # the log was sealed meanwhile, and is shipped the next time; or it is damaged
            about, first_ns = read_beginning(path)
        begun_ns = segment.start_ns if first_ns is None else min(segment.start_ns, first_ns)
        for host in hosts.holding(table, about, segment):
            host.hot_ns.append(begun_ns)
            hosts.in_headers.setdefault(host.name, set()).update({about.host} if about and about.host else ())


class _Hosts:
    """The hosts of a store, created on demand. `in_headers` are the whole names in the headers of hot logs."""

    def __init__(self, own: HostName, found: dict[str, _TableFiles]) -> None:
        self.by_name: dict[HostName, HostFiles] = {}
        self._in_names: set[HostName] = set()  # of files
        self.in_headers: dict[HostName, set[str]] = {}
        self._own = _complete(own, found)

    def of(self, table: str, rack: str, host: str) -> HostFiles:
        """Returns the host of a file of TABLE. Raises UsageError if neither the file nor OWN names one."""
        name = HostName(rack or self._own.rack, host or self._own.host)
        if not all(name):
            lacking = "--rack" if not name.rack else "--host"
            raise UsageError(
                f"the files of table {table} have no {lacking[2:]}", f"give {lacking} NAME: they are shipped as its own"
            )
        if host:
            self._in_names.add(name)
        return self.by_name.setdefault(name, HostFiles(name))

    def is_cut(self, found: HostFiles) -> bool:
        """Returns whether FOUND has files of other hosts, whose names begin with its name, or may have. A writer has
        one host, so one of its files is read."""
        if found.name not in self._in_names or not may_be_cut(found.name.host):
            return False
        of_writers: dict[str, set[str]] = {}
        for of in (*found.files, *found.waiting):
            if of.file.name.segment.host and not of_writers.get(of.file.name.segment.writer):
                of_writers[of.file.name.segment.writer] = _hosts_in(of)
        return self.in_headers.get(found.name, set()).union(*of_writers.values()) != {found.name.host}

    def holding(self, table: str, about: LogHeader | None, segment: Segment) -> Iterable[HostFiles]:
        """Returns the hosts whose rows a hot log may have: one, or, if its header is damaged, all with that name."""
        if about is not None:
            return [self.of(table, about.rack, segment.host)]
        host = segment.host or self._own.host
        return [found for name, found in self.by_name.items() if name.host == host]


def _complete(own: HostName, found: dict[str, _TableFiles]) -> HostName:
    """Returns OWN with what it lacks, taken from the only host or rack of the store."""
    names = {(file.rack, file.name.segment.host) for table in found.values() for file in table.files}
    racks, hosts = ({part for part in parts if part} for parts in (zip(*names, strict=True) if names else ((), ())))
    return HostName(
        own.rack or (racks.pop() if len(racks) == 1 else ""), own.host or (hosts.pop() if len(hosts) == 1 else "")
    )
