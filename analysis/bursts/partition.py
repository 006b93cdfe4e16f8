"""Bursts of files that are named one by one, without a store around them: of one date and rack, say, which another
process is asked for, or another machine that has copies of them."""

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
    """What some files hold. `bursts` has bursts.COLUMNS, sorted by start (times in Unix ns, rates in bits a second,
    utilizations as shares of line rate); `damaged` are the files that could not be read, without which the bursts were
    found: those that they touch have the quality `incomplete`."""

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
    """The bursts of FILES, by table: `bins`, the `recordings` that they belong to and, where senders are wanted,
    `sources` (Store.files lists them). The same text of SQL as for a store, and row for row the same answer as that of
    a store that has these files alone. HOSTS and WHERE choose as for find_bursts, THREADS and MEMORY ("1GB") bound
    DuckDB.

    A burst that goes on in other files is found in part. Files of whole hosts and of all their dates have none of
    these; for one date, name the neighbouring files of its host too, detect bursts in a margin around it (since_ns,
    until_ns), and keep the bursts that begin in it.

    Raises as find_bursts does, and MburstError where bins have no row of `recordings`."""
    with listed.connect(files, threads=threads, memory=memory) as con:
        detect_bursts(con, definition, hosts=hosts, **where)
        with readable(con):
            return FileBursts(con.sql("FROM listed").to_arrow_table(), damaged_files(con))
