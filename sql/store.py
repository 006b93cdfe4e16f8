"""A store: a folder that any number of writers append to and any number of readers read, with no lock between them."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import MburstError
from . import segments, tables
from .damage import check_ends, find_damage, readable
from .writer import Writer, seal_abandoned

if TYPE_CHECKING:
    import duckdb

MARKER = "mburst.json"
FORMAT = 1
MACROS = Path(__file__).parent / "macros.sql"

# Recordings come last: a row is written before its bins, so no reader sees bins without their recording.
LISTING = [
    "bins", "sources", "queues", "ports", "buffers", "links", "gnmi_values", "gnmi_events", "device_clocks", "probes",
    "clock", "recordings",
]  # fmt: skip


class Store:
    """A store on disk. Make one with `create` or `open`."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @classmethod
    def create(cls, path: str | os.PathLike[str]) -> Store:
        """The store at PATH, made if there is nothing or an empty folder. Raises MburstError when it cannot be written
        or is something else."""
        folder = Path(path)
        if (folder / MARKER).exists():
            return cls.open(folder)
        with segments.failing_as_one_line(folder, "write"):
            folder.mkdir(parents=True, exist_ok=True)
            if any(not name.startswith(MARKER) for name in os.listdir(folder)):
                raise MburstError(f"{folder}: not empty, and no mburst store", "name a new folder")
            draft = folder / f"{MARKER}.{os.getpid()}"
            draft.write_text(json.dumps({"format": FORMAT}) + "\n", encoding="utf-8")
            draft.rename(folder / MARKER)
        return cls(folder)

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> Store:
        """The store at PATH. Raises MburstError when there is none."""
        folder = Path(path)
        try:
            marker = (folder / MARKER).read_text(encoding="utf-8")
        except (FileNotFoundError, NotADirectoryError):
            raise MburstError(f"{folder}: no mburst store", "`mburst record … -o STORE` makes one") from None
        except OSError as error:
            raise MburstError(f"{folder / MARKER}: cannot read: {os.strerror(error.errno or 0)}") from error
        try:
            version = json.loads(marker)["format"]
        except (ValueError, KeyError, TypeError):
            raise MburstError(f"{folder / MARKER}: damaged", f'it should say {{"format": {FORMAT}}}') from None
        if version != FORMAT:
            raise MburstError(
                f"{folder}: a store of format {version}, this is mburst for format {FORMAT}",
                "use the mburst that wrote it",
            )
        return cls(folder)

    def writer(self, table: str, host: str = "", rack: str = "") -> Writer:
        """A writer of TABLE; HOST and RACK are those of its rows, where the table has such columns. A HOST of '' stands
        for any, since no reader looks for rows by it."""
        if table not in tables.ORDER:
            raise ValueError(f"no table {table!r}")
        return Writer(self.path, table, host, rack)

    def is_empty(self, table: str) -> bool:
        """Whether no row of TABLE was ever stored. Looks at names only, so that a writer need not load a database."""
        return not segments.hot_files(self.path, table) and not segments.sealed_files(
            self.path, table, segments.Narrow()
        )

    def seal(self) -> int:
        """Seal every hot log whose writer has died; how many there were. Raises MburstError for the first that could
        not be sealed, after the others."""
        failures: list[MburstError] = []
        sealed = sum(seal_abandoned(self.path, table, failures.append) for table in tables.ORDER)
        if failures:
            raise failures[0]
        return sealed

    def connect(
        self, rack: str | None = None, since_ns: int | None = None, until_ns: int | None = None
    ) -> duckdb.DuckDBPyConnection:
        """An in-memory DuckDB with a view for each table of LISTING, the table quality, and the macros of macros.sql,
        over what the store holds at this moment. RACK, SINCE_NS and UNTIL_NS leave out files that cannot hold such rows
        (a rack or a whole day at a time,
         with a day to spare); they do not filter rows, never leave out recordings by time,
        and never leave out links, which hold until something else is said. Nothing is fetched from a network.
        Raises MburstError."""
        narrow = segments.Narrow(
            rack,
            None if since_ns is None else since_ns // segments.NS_PER_DAY - 1,
            None if until_ns is None else until_ns // segments.NS_PER_DAY + 1,
        )
        connection = in_memory()
        for table in LISTING:
            self._create_view(connection, table, narrow)
        return connection

    def _create_view(self, connection: duckdb.DuckDBPyConnection, table: str, narrow: segments.Narrow) -> None:
        names = [column.name for column in tables.columns(table)]
        if "rack" not in names:
            narrow = segments.Narrow(None, narrow.first_day, narrow.last_day)
        if table == "recordings":  # their date is when they were written, not what they are about
            narrow = segments.Narrow(narrow.rack)
        if table == "links":
            narrow = segments.Narrow()
        with segments.failing_as_one_line(self.path / table, "read"):
            logs, files = segments.snapshot(self.path, table, narrow)
            for path in files:
                check_ends(path)
        branches = []
        if files:
            listed = ", ".join("'" + str(path).replace("'", "''") + "'" for path in files)
            connection.execute("INSERT INTO defined.files SELECT unnest($1), $2", [list(map(str, files)), names])
            branches.append(f"read_parquet([{listed}], hive_partitioning = false)")
        for index, log in enumerate(logs):
            connection.register(f"hot_{table}_{index}", log)
            branches.append(f"hot_{table}_{index}")
        select = " UNION ALL ".join(
            f"SELECT {', '.join(names)} FROM {branch}" for branch in branches or [f"defined.{table}"]
        )
        if table == "recordings":
            latest = "row_number() OVER (PARTITION BY recording_id ORDER BY written_ns DESC, complete DESC) = 1"
            select = f"SELECT * FROM ({select}) QUALIFY {latest}"
        try:
            with readable(connection):
                connection.execute(f"CREATE VIEW {table} AS {select}")
        except MburstError:
            find_damage(connection)  # whatever was said: the view's text is right, so a file's own columns are not
            raise


def in_memory() -> duckdb.DuckDBPyConnection:
    """An in-memory DuckDB with the table quality, the macros, and the other tables empty in the schema `defined`: for
    rows that are in no store yet, registered under the names of the tables."""
    import duckdb

    connection = duckdb.connect(":memory:", config={"autoinstall_known_extensions": "false"})
    connection.execute(tables.schema_sql("quality"))
    connection.execute("CREATE SCHEMA defined; USE defined; CREATE TABLE files (path VARCHAR, names VARCHAR[])")
    for table in LISTING:
        connection.execute(tables.schema_sql(table))
    connection.execute("USE main")
    connection.execute(MACROS.read_text(encoding="utf-8"))
    return connection
