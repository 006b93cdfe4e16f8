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
    with pq.ParquetFile(path) as content:
        if reason := misnamed(content, name, table):
            return reason
        if "rack" in content.schema_arrow.names:
            racks = content.read_row_group(0, columns=["rack"]).column("rack").unique().to_pylist()
            return "" if racks == [rack_of(path.parent.name)] else "the rack of its folder is not that of its rows"
        return ""


def misnamed(content: pq.ParquetFile, name: SealedName, table: str) -> str:
    """Why rows are not of TABLE, or not what the file's NAME says of them; '' where they are."""
    names = content.schema_arrow.names
    if not are_columns_of(table, names) or len(names) != name.columns:
        return f"the rows are not of table {table}"
    if _bounds(content.metadata, names.index(ORDER[table][-1])) != (name.first_ns, name.last_ns):
        return "the times in its name are not those of its rows"
    return ""


def are_columns_of(table: str, names: list[str]) -> bool:
    """Whether NAMES are the columns of TABLE as they are, as they were, or as a newer mburst has them."""
    known = [column.name for column in columns(table)]
    return ORDER[table][-1] in names and known[: len(names)] == names[: len(known)]


def _bounds(metadata: pq.FileMetaData, column: int) -> tuple[int, int]:
    """The least and the largest value of a column, as the statistics of the row groups have them."""
    found = [metadata.row_group(group).column(column).statistics for group in range(metadata.num_row_groups)]
    return min(each.min for each in found), max(each.max for each in found)
