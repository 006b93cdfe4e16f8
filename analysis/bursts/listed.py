"""Bursts of files that are named one by one, without a store around them, for example of one date and rack: for another
process, or another machine with copies of the files."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ...sql import listed
from ...sql.damage import DamagedFile, damaged_files, readable
from .find import BurstDefinition, detect_bursts

if TYPE_CHECKING:
    import pyarrow as pa


class FileBursts(NamedTuple):
    """The bursts of some files. `bursts` has bursts.COLUMNS, sorted by start (times in Unix ns, rates in bits per
    second, utilizations as shares of line rate). `damaged` are the files that could not be read; the bursts were
    detected without them, and the affected bursts have the quality `incomplete`."""

    bursts: pa.Table
    damaged: list[DamagedFile]


def find_bursts_in(
    files: Mapping[str, Iterable[Path]],
    definition: BurstDefinition | None = None,
    *,
    threads: int | None = None,
    memory: str | None = None,
    hosts: str | Sequence[str] | None = None,
    **where: str | int | None,
) -> FileBursts:
    """Returns the bursts of FILES. FILES has, by table, `bins`, the `recordings` that they belong to and, if senders
    are wanted, `sources` (Store.files lists them). The SQL is the same as for a store, and the result is row for row
    that of a store with only these files. HOSTS and WHERE select as for find_bursts; THREADS and MEMORY ("1GB") limit
    DuckDB.

    A burst that continues in other files is found only in part. Files of whole hosts and of all their dates have no
    such bursts. For one date, also name the neighbouring files of its host, detect bursts in a margin around the date
    (since_ns, until_ns), and keep the bursts that begin in it.

    Raises the errors of find_bursts, and MburstError if bins have no row of `recordings`."""
    with listed.connect(files, threads=threads, memory=memory) as con:
        detect_bursts(con, definition, hosts=hosts, **where)
        with readable(con):
            return FileBursts(con.sql("FROM listed").to_arrow_table(), damaged_files(con))
