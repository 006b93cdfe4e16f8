"""A store: a folder that any number of writers append to and any number of readers read, with no lock between them."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from .. import files
from ..errors import MburstError
from . import damage, disk, making, replacing, segments, tables, views
from .format.filenames import PACKETS
from .place import StorePlace
from .tables import STORE_FORMAT
from .writer import TableWriter, seal_abandoned

if TYPE_CHECKING:
    import duckdb

MARKER = "mburst.json"
MARKER_BYTES = 4096  # a larger file is not a marker


class StoreFolder:
    """A store on disk. Make one with `create`, `created` or `open`. `made_in` is the existing folder below which
    `created` made it; it has to be writable so that the store can be removed again. `place` detects that the store is
    moved, for commands that run until a signal."""

    def __init__(self, path: Path) -> None:
        """Raises MburstError if the database could not open files below PATH."""
        if not files.is_utf8(path):
            raise MburstError(f"{os.fsencode(path)!r}: a store's path has to be UTF-8", "rename a folder of it")
        files.check_local(path)
        self.path = path
        self.place = StorePlace(path)
        self.made_in: Path | None = None

    @classmethod
    def create(cls, path: str | os.PathLike[str]) -> StoreFolder:
        """Returns the store at PATH, and makes it if there is nothing or an empty folder. Raises MburstError if it
        cannot be written or is something else."""
        store = cls(folder := Path(path))
        if os.path.lexists(folder / MARKER):
            return cls.open(folder)
        with disk.failing_as_one_line(folder, "write"):
            if os.path.lexists(folder) and not folder.is_dir():
                raise MburstError(f"{folder}: a file, and not an mburst store", "name a new folder")
            disk.make_folder(folder)
            if any(not name.startswith((MARKER, f".{MARKER}.")) for name in os.listdir(folder)):
                raise MburstError(f"{folder}: not empty, and not an mburst store", "name a new folder")
            disk.write_durably(folder / MARKER, json.dumps({"format": STORE_FORMAT}) + "\n")
            replacing.prepare(folder, is_new=True)
        return store

    @classmethod
    @contextmanager
    def created(cls, path: str | os.PathLike[str]) -> Iterator[StoreFolder]:
        """The same for a command that may fail before anything is stored: then it leaves nothing that it made. Raises
        MburstError."""
        marker, used = Path(path).absolute() / MARKER, None
        is_made, folders = not os.path.lexists(marker), making.missing(marker.parent)
        try:
            while used is None:
                store = cls.create(path)
                with disk.failing_as_one_line(marker, "read"):
                    used = making.use(marker)
            store.made_in = folders[-1].parent if folders else None
            yield store
        except BaseException:
            if is_made:
                with suppress(OSError):
                    making.remove(marker, used, folders)
            raise
        finally:
            if used is not None:
                os.close(used)

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> StoreFolder:
        """Returns the store at PATH. Raises MburstError if there is none, or one of another format."""
        store = cls(folder := Path(path))
        version = format_of(folder)
        if version > STORE_FORMAT:
            raise MburstError(
                f"{folder}: a store of format {version}; this mburst knows formats up to {STORE_FORMAT}",
                "use the version that wrote it, or a newer one",
            )
        if version < STORE_FORMAT:
            raise MburstError(
                f"{folder}: a store of format {version}; this mburst reads format {STORE_FORMAT}",
                f"`mburst migrate {folder} NEW` makes one of format {STORE_FORMAT} from it",
            )
        return store

    def writer(
        self,
        table: str,
        host: str = "",
        rack: str = "",
        writer_id: str | None = None,
        on_trouble: Callable[[MburstError], None] | None = None,
    ) -> TableWriter:
        """Returns a writer of TABLE. HOST and RACK are those of its rows, if the table has such columns. A HOST of ''
        stands for any, since no reader looks for rows by it. WRITER_ID names its segments (filenames.new_writer;
        writers of several tables may share one). ON_TROUBLE is called for rows that could not be sealed yet. Raises
        UsageError if no file can be named after RACK."""
        if table not in tables.ORDER:
            raise ValueError(f"unknown table {table!r}")
        return TableWriter(self.path, table, host, rack, writer_id, on_trouble, place=self.place)

    def is_empty(self, table: str) -> bool:
        """Whether no row of TABLE was ever stored. Reads only names, so that a writer need not load a database."""
        return (
            not segments.list_hot(self.path, table).logs
            and not segments.list_sealed(self.path, table, segments.FileSelection()).files
        )

    def unsealed(self) -> dict[str, int]:
        """When the oldest hot log of each table with one was begun, in Unix nanoseconds."""
        return {table: min(found.values()) for table, found in self.hot_logs().items() if found}

    def hot_logs(self) -> dict[str, dict[Path, int]]:
        """By table, its hot logs and when each was begun, in Unix nanoseconds."""
        return {
            table: {path: segment.start_ns for path, segment in segments.list_hot(self.path, table).logs.items()}
            for table in tables.ORDER
        }

    def seal(self) -> int:
        """Seal every hot log whose writer has died. Returns the number of these logs. Raises MburstError for the first
        one that could not be sealed, after the others."""
        failures: list[MburstError] = []
        sealed = sum(seal_abandoned(self.path, table, failures.append) for table in tables.ORDER)
        if failures:
            raise failures[0]
        return sealed

    def connect(
        self, rack: str | None = None, since_ns: int | None = None, until_ns: int | None = None
    ) -> duckdb.DuckDBPyConnection:
        """Returns an in-memory DuckDB over what the store holds at this moment, with a view for each table of LISTING,
        the tables quality and damaged_files, and the macros of macros.sql. RACK, SINCE_NS and UNTIL_NS leave out files
        that cannot hold such rows (with an hour to spare). They do not filter rows, never leave out recordings by time,
        and never leave out links, names and canary, which hold until another row replaces them. Damaged files are left
        out and listed in damaged_files and damage.FOUND. Nothing is fetched from a network. Raises MburstError."""
        return views.connect(self.path, segments.FileSelection(rack, since_ns, until_ns))

    def connect_newest(self, rack: str | None = None) -> duckdb.DuckDBPyConnection:
        """The same, over the few files that show the time of the newest row of the view `newest`. Raises
        MburstError."""
        with disk.failing_as_one_line(self.path, "read"):
            sealed = [segments.newest_sealed_ns(self.path, table, rack) for table in ("bins", "probes", "queues")]
        sealed_ns = max((ns for ns in sealed if ns is not None), default=None)
        connection = self.connect(rack, sealed_ns)
        if sealed_ns is not None:
            with damage.readable(connection):
                [(newest_ns,)] = connection.execute("SELECT max(ts_ns) FROM newest").fetchall()
            if newest_ns is None or newest_ns < sealed_ns:  # the newest file is damaged or replaced
                connection.close()
                return self.connect(rack)
        return connection

    def files(
        self, rack: str | None = None, since_ns: int | None = None, until_ns: int | None = None
    ) -> dict[str, list[Path]]:
        """Returns, by table, the files that `connect` would read: sealed files and hot logs, including damaged ones.
        Raises MburstError."""
        found = views.contents(self.path, segments.FileSelection(rack, since_ns, until_ns))
        return {
            table: [
                *(log.path for log in of.logs),
                *(file.path for file in of.files),
                *(Path(damaged.path) for damaged in of.damage),
            ]
            for table, of in found.items()
        }


def files_of(store: Path) -> Iterator[tuple[Path, os.stat_result, bool]]:
    """Each file of STORE as it is, and whether it is of a ring of packets, which has a size of its own and is in no
    limit of `[keep]`."""
    for place, _, names in os.walk(store):
        is_packets = Path(place).relative_to(store).parts[:1] == (PACKETS,)
        for path in (Path(place) / name for name in names):
            with suppress(OSError):  # sealed or replaced meanwhile
                yield path, path.lstat(), is_packets


def format_of(folder: Path) -> int:
    """Returns the format of the store at FOLDER. Raises MburstError if there is no store, or if it does not state its
    format."""
    path = folder / MARKER
    try:
        descriptor = disk.open_regular(path)
    except (FileNotFoundError, NotADirectoryError):
        raise MburstError(f"{folder}: not an mburst store", "`mburst record … -o STORE` makes one") from None
    except OSError as error:
        raise MburstError(f"{path}: cannot read: {error.strerror}", disk.hint(error.errno)) from error
    try:
        marker = os.read(descriptor, MARKER_BYTES)
    except OSError as error:
        raise MburstError(f"{path}: cannot read: {error.strerror}", disk.hint(error.errno)) from error
    finally:
        os.close(descriptor)
    try:
        version = json.loads(marker)["format"]
    except (ValueError, KeyError, TypeError, RecursionError):
        version = None
    if type(version) is not int or version < 1:
        raise MburstError(f"{path}: damaged", f'it should be {{"format": {STORE_FORMAT}}}')
    return version
