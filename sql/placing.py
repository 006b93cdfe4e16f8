"""Whether a sealed file is called, and stands, as its rows want it: readers pass over files by name and folder."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from .filenames import MIXED, NS_PER_DAY, SealedName, date_folder, rack_of
from .tables import ORDER, columns

if TYPE_CHECKING:
    import pyarrow.parquet as pq


def misplaced(path: Path, name: SealedName) -> str:
    """Why the file at PATH, whose content is sound, does not belong there; '' where it does. Raises OSError and
    ArrowException."""
    import pyarrow.parquet as pq

    date, table = path.parent.parent.name, path.parents[2].name
    if date != MIXED and {date_folder(ns // NS_PER_DAY) for ns in (name.first_ns, name.last_ns)} != {date}:
        return "the date of its folder is not that of its rows"
    with pq.ParquetFile(path, pre_buffer=False) as content:
        names = content.schema_arrow.names
        if not are_columns_of(table, names) or len(names) != name.columns:
            return f"the rows are not of table {table}"
        if _bounds(content.metadata, names.index(ORDER[table][-1])) != (name.first_ns, name.last_ns):
            return "the times in its name are not those of its rows"
        if "rack" in names:
            first = next(content.iter_batches(1, row_groups=[0], columns=["rack"], use_threads=False))
            mine = first.column("rack").to_pylist() == [rack_of(path.parent.name)]  # a writer has one
            return "" if mine else "the rack of its folder is not that of its rows"
        return ""


def are_columns_of(table: str, names: list[str]) -> bool:
    """Whether NAMES are the columns of TABLE as they are, as they were, or as a newer mburst has them."""
    known = [column.name for column in columns(table)]
    return ORDER[table][-1] in names and known[: len(names)] == names[: len(known)]


def _bounds(metadata: pq.FileMetaData, column: int) -> tuple[int, int]:
    """The least and the largest value of a column, as the statistics of the row groups have them."""
    found = [metadata.row_group(group).column(column).statistics for group in range(metadata.num_row_groups)]
    return min(each.min for each in found), max(each.max for each in found)
