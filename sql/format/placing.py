"""Whether the name and folder of a sealed file match its rows: readers skip files by name and folder."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from ...files import plain_name
from ...units import NS_PER_DAY
from ..tables import ORDER
from .batches import not_of
from .filenames import MIXED, SealedName, date_folder, rack_of

if TYPE_CHECKING:
    import pyarrow.parquet as pq

# Limits of a row group, which readers read completely: several times what mburst writes.
MOST_ROWS, MOST_BYTES = 1 << 20, 2 << 30  # bytes of a column


def misplaced(path: Path, name: SealedName) -> str:
    """Why the file at PATH, with sound content, does not belong there; '' if it does. Raises OSError and
    ArrowException."""
    import pyarrow.parquet as pq

    date, table = path.parent.parent.name, path.parents[2].name
    days = {date_folder(ns // NS_PER_DAY) for ns in (name.first_ns, name.last_ns)}
    if days != {date} and not (date == MIXED and len(days) > 1):
        return "the date of its folder is not that of its rows"
    with pq.ParquetFile(plain_name(path), pre_buffer=False) as content:
        if reason := misnamed(content, name, table):
            return reason
        if "rack" in content.schema_arrow.names:
            first = next(content.iter_batches(1, row_groups=[0], columns=["rack"], use_threads=False))
            mine = first.column("rack").to_pylist() == [rack_of(path.parent.name)]  # a writer has one rack
            return "" if mine else "the rack of its folder is not that of its rows"
        return ""


def misnamed(content: pq.ParquetFile, name: SealedName, table: str) -> str:
    """Why rows are not of TABLE, or do not match the NAME of the file; '' if they do."""
    names = content.schema_arrow.names
    if len(names) != name.columns:
        return f"the rows are not of table {table}"
    if reason := not_of(table, content.schema_arrow) or _oversized(content.metadata):
        return reason
    if _bounds(content.metadata, names.index(ORDER[table][-1])) != (name.first_ns, name.last_ns):
        return "the times in its name are not those of its rows"
    return ""


def _oversized(metadata: pq.FileMetaData) -> str:
    """Why a file would need more memory than one that mburst wrote: readers read a row group completely."""
    groups = [metadata.row_group(group) for group in range(metadata.num_row_groups)]
    if not groups or not all(0 < group.num_rows <= MOST_ROWS for group in groups):
        return f"its row groups do not have 1 to {MOST_ROWS:,} rows"
    largest = max(
        group.column(column).total_uncompressed_size for group in groups for column in range(group.num_columns)
    )
    return f"a column of {largest:,} bytes in a row group" if largest > MOST_BYTES else ""


def _bounds(metadata: pq.FileMetaData, column: int) -> tuple[int, int] | None:
    """The least and the largest value of a column, from the statistics of the row groups, if they have them."""
    found = [metadata.row_group(group).column(column).statistics for group in range(metadata.num_row_groups)]
    if not all(each and each.has_min_max for each in found):
        return None
    return min(each.min for each in found), max(each.max for each in found)
