"""Import of probes and switch queues from CSV files into a store."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING, NamedTuple

from ..errors import Interrupted, MburstError

if TYPE_CHECKING:
    import duckdb

    from ..sql import StoreFolder
    from ..telemetry.csv_import import CsvFile, CsvSummary, CsvText

WAIT_S = 0.1  # between two looks whether another import has ended


class Imported(NamedTuple):
    """What an import did: the `rows` of the file and how many of them were `added`. The others were in the store
    already, or of seconds of which it keeps only sums: `summed`. `batch` is that of the rows that were added.
    `lost` probes had no answer; `backwards` ended before they began. Times are Unix ns, None for no row."""

    table: str
    file: str
    batch: str
    rows: int
    added: int
    lost: int
    backwards: int
    start_ns: int | None
    end_ns: int | None
    summed: int


def import_csv(store: StoreFolder, table: str, file: str, protocol: str = "") -> Imported:
    """Add a CSV file of probes or queues to a store. Raises MburstError."""
    from ..telemetry.csv_import import open_text

    with open_text(file) as text:
        return add(lambda: nullcontext(store), table, text, file, protocol)


def add(
    store: Callable[[], AbstractContextManager[StoreFolder]],
    table: str,
    text: CsvText,
    file: str,
    protocol: str,
    ended_by: Callable[[], object] = list,
) -> Imported:
    """Add the rows of TEXT, the content of FILE, that the store lacks. STORE is called only after the whole text is
    found to be valid. Reading stops early as soon as ENDED_BY returns something true. Raises MburstError."""
    from ..telemetry.csv_import import CsvFile

    source = CsvFile(text, table, "standard input" if file == "-" else file, ended_by)
    summary = source.scan()
    with store() as folder, _alone(folder, table, ended_by):
        added, summed = _append(folder, table, source, summary, protocol)
    return Imported(
        table,
        file,
        summary.batch,
        summary.rows,
        added,
        summary.lost,
        summary.backwards,
        summary.start_ns,
        summary.end_ns,
        summed,
    )


@contextmanager
def _alone(store: StoreFolder, table: str, ended_by: Callable[[], object]) -> Iterator[None]:
    """While this lasts, no other import adds rows of TABLE: what it added would be added twice. Raises MburstError."""
    from ..sql import locks

    while (lock := locks.acquire(store.path, f"import-{table}")) is None:
        if ended_by():
            raise Interrupted("interrupted while another import was running", "nothing was added")
        time.sleep(WAIT_S)
    try:
        yield
    finally:
        lock.end()


def _append(store: StoreFolder, table: str, source: CsvFile, summary: CsvSummary, protocol: str) -> tuple[int, int]:
    """Append what the store lacks of a file; the number of rows, and of those that it has in sums alone.

    Rows are appended in the order of the file: after an interrupted import the store holds the first rows.
    """
    from ..analysis.read.held import HeldRows

    added = summed = 0
    with store.writer(table) as writer:  # also for no rows: it seals what a killed import left
        if summary.start_ns is None or summary.end_ns is None:
            return 0, 0
        with store.connect(since_ns=summary.start_ns, until_ns=summary.end_ns + 1) as connection:
            span = summary.start_ns, summary.end_ns
            _refuse_missing(connection, table, source.name, *span)
            held = HeldRows(connection, table, source.compared, source.owner, sorted(summary.owners), *span)
            for batch in source.read(summary, protocol):
                new = held.without(batch)
                added, summed = added + new.rows.num_rows, summed + new.summed
                writer.append(new.rows)
    return added, summed


def _refuse_missing(connection: duckdb.DuckDBPyConnection, table: str, name: str, first_ns: int, last_ns: int) -> None:
    """Raises MburstError if rows in [FIRST_NS, LAST_NS] of the file NAME may be in a stored file that cannot be read:
    they would be added again, and count twice once that file is back."""
    from ..analysis.read.held import unreadable

    for stored in unreadable(connection, table, first_ns, last_ns):
        state, first = ("was set aside", "") if stored.is_set_aside else ("is damaged", "run `mburst repair`, and ")
        raise MburstError(
            f"{name}: nothing was added: rows of it may be in {stored.path}, which {state}, and would count twice once "
            "it is back",
            f"bring a sound file back into its place; if there is none, {first}remove it from the folder damaged; then "
            "import again",
        )
