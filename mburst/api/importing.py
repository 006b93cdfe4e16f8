"""Probes and switch queues from CSV files into a store."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from ..sql import StoreFolder
    from ..telemetry.csv_import import CsvFile, CsvSummary, CsvText


class Imported(NamedTuple):
    """What an import did: the `rows` of the file and how many of them were `added`, as the others were in the store
    already. `lost` probes had no answer; `backwards` ended before they began. Times are Unix ns, None for no row."""

    table: str
    file: str
    batch: str
    rows: int
    added: int
    lost: int
    backwards: int
    start_ns: int | None
    end_ns: int | None


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
    """Add what a store lacks of TEXT, which is that of FILE. The store is asked for once the file is known to be good.
    Once ENDED_BY gives something true, the rest is left out. Raises MburstError."""
    from ..telemetry.csv_import import CsvFile

    source = CsvFile(text, table, "standard input" if file == "-" else file, ended_by)
    summary = source.scan()
    with store() as folder:
        added = _append(folder, table, source, summary, protocol)
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
    )


def _append(store: StoreFolder, table: str, source: CsvFile, summary: CsvSummary, protocol: str) -> int:
    """Append what the store lacks of a file; the number of rows.

    Rows go in in the order of the file, so that of an import that was cut short the store holds the first ones.
    """
    from ..analysis.read.rows import count_batch

    with store.connect() as connection:
        held = count_batch(connection, table, summary.batch)
    with store.writer(table) as writer:  # also for no rows: it seals what a killed import left
        for batch in source.read(summary, protocol, skip=held):
            writer.append(batch)
    return summary.rows - held
