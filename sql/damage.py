"""Which stored files are damaged and what is missing because of them, and one-line messages for errors of DuckDB."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import Interrupted, MburstError, UsageError
from ..process import shortage
from . import disk

if TYPE_CHECKING:
    import duckdb

COLUMNS = ("path", "table_name", "reason", "rack", "host", "first_ns", "last_ns")  # columns of the table damaged_files
SECOND_COPY = "a second copy of the same part of a segment"  # the reason of files whose rows another one has
SET_ASIDE = "set aside by `mburst repair`"  # the reason of damaged files that are in no table any more
HINT = "`mburst check STORE` reads every file, `mburst repair STORE` sets damaged ones aside"


@dataclass(frozen=True)
class DamagedFile:
    """A file that is left out, read in part, or set aside. The missing rows are of this table, rack and host, in
    [first_ns, last_ns], as far as these are known ('' and None: not known)."""

    path: str
    table: str
    reason: str
    rack: str = ""
    host: str = ""
    first_ns: int | None = None
    last_ns: int | None = None

    def __str__(self) -> str:
        reason = self.reason if self.is_set_aside else f"damaged: {self.reason}"
        return f"{self.path}: {reason} (missing: {self.missing()})"

    @property
    def is_set_aside(self) -> bool:
        """Whether `mburst repair` moved this file away."""
        return self.reason == SET_ASIDE

    def facts(self) -> dict[str, Any]:
        """The JSON object of this file, with the columns of the table damaged_files."""
        return dict(zip(COLUMNS, astuple(self), strict=True))

    def missing(self) -> str:
        """What is missing, as text for people."""
        from ..units import format_time

        if self.reason == SECOND_COPY:
            return "nothing"
        text = f"rows of {self.table}"
        text += f" of host {self.host}" if self.host else ""
        text += f" in rack {self.rack}" if self.rack else ""
        text += f" from {format_time(self.first_ns)}" if self.first_ns is not None else ""
        return text + (f" to {format_time(self.last_ns)} UTC" if self.last_ns is not None else "")


def counted(files: Sequence[DamagedFile]) -> str:
    """ "1 file of the store is damaged, 2 files were set aside by `mburst repair`"; there is at least one."""
    from ..units import format_count

    aside = sum(file.is_set_aside for file in files)
    parts = []
    if damaged := len(files) - aside:
        parts.append(f"{format_count(damaged, 'file')} of the store {'is' if damaged == 1 else 'are'} damaged")
    if aside:
        parts.append(f"{format_count(aside, 'file')} {'was' if aside == 1 else 'were'} {SET_ASIDE}")
    return ", ".join(parts)


class KnownDamage:
    """The damage that this process has found: every file once. `listeners` are notified of each file when it is
    found."""

    def __init__(self) -> None:
        self.files: dict[str, DamagedFile] = {}
        self.listeners: list[Callable[[DamagedFile], None]] = []

    def add(self, damage: DamagedFile) -> None:
        """Keep DAMAGE, and notify the listeners if it is new."""
        if damage.path not in self.files:
            self.files[damage.path] = damage
            for listener in self.listeners:
                listener(damage)


FOUND = KnownDamage()

TABLE = (
    "CREATE TABLE damaged_files (path VARCHAR, table_name VARCHAR, reason VARCHAR, rack VARCHAR, host VARCHAR, "
    "first_ns BIGINT, last_ns BIGINT)"
)


def fill_table(connection: duckdb.DuckDBPyConnection, damage: Iterable[DamagedFile]) -> None:
    """Fill the table damaged_files of CONNECTION with DAMAGE: the files that it has to do without."""
    if damage := list(damage):
        connection.executemany("INSERT INTO damaged_files VALUES (?, ?, ?, ?, ?, ?, ?)", [astuple(it) for it in damage])


def damaged_files(connection: duckdb.DuckDBPyConnection) -> list[DamagedFile]:
    """Returns the files that CONNECTION has to do without, ordered by path."""
    rows = connection.execute(f"SELECT {', '.join(COLUMNS)} FROM damaged_files ORDER BY ALL").fetchall()
    return [DamagedFile(*row) for row in rows]


def changed_in_store(paths: Collection[Path]) -> dict[Path, str]:
    """Returns the sealed files of PATHS that do not hold what was written, with the reason. They are verified again
    before they are next read."""
    from . import verified

    damaged = verified.verify(paths)
    for path in damaged:
        verified.forget(path)
    return damaged


@contextmanager
def readable(
    connection: duckdb.DuckDBPyConnection,
    ours: bool = False,
    changed: Callable[[Collection[Path]], dict[Path, str]] = changed_in_store,
) -> Iterator[None]:
    """Turns errors of DuckDB inside into a MburstError of one line: "PATH: damaged: …" if one of the files that the
    views of CONNECTION read is the cause. If the statement is OURS, any error may have that cause. CHANGED returns
    those of the files that do not hold what was written, with the reason. An error that SQL raises with
    error('usage: …') becomes a UsageError."""
    import duckdb

    at_fault = (duckdb.ParserException, duckdb.BinderException, duckdb.CatalogException, duckdb.ConversionException)
    try:
        yield
    except duckdb.InterruptException as error:
        raise Interrupted("interrupted") from error
    except (duckdb.Error, UnicodeDecodeError) as error:
        shortage.refuse(error)
        first, *more = str(error).splitlines() or [""]
        message = first.removeprefix("Invalid Input Error: ")
        if message.startswith("usage: "):
            raise UsageError(message.removeprefix("usage: ")) from error
        if ours or not isinstance(error, at_fault):
            _raise_damage(connection, changed)
        hint = next((line for line in more if line.startswith("Did you mean")), "")
        raise MburstError(message, hint) from error


def _raise_damage(
    connection: duckdb.DuckDBPyConnection, changed: Callable[[Collection[Path]], dict[Path, str]]
) -> None:
    """Raises MburstError for the first file under the views of CONNECTION that does not hold what was written, by
    CHANGED: it has changed since it was verified, or rotted. The next command answers without the file."""
    cursor = connection.cursor()
    names = {Path(path): name for path, name in cursor.execute("FROM defined.files").fetchall()}
    for path, reason in changed(names.keys()).items():
        raise MburstError(f"{path}: damaged: {reason}", "try again: the answer will leave it out")
    for path, name in names.items():
        if reason := _unreadable(cursor, path, name):
            raise MburstError(f"{path}: damaged: {reason}", "remove it from the store: mburst did not write it")


def _unreadable(cursor: duckdb.DuckDBPyConnection, path: Path, name: str) -> str:
    """Why the database, which knows the file at PATH as NAME, cannot read all of it although its content is what PATH
    says; '' if it can."""
    import duckdb

    try:
        cursor.execute("SELECT max(hash(t)) FROM read_parquet([$1], hive_partitioning = false) t", [name])
        return ""
    except duckdb.Error as error:
        disk.refuse_shortage(error, path)
        return str(error).splitlines()[0].replace(name, str(path))
