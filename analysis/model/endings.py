"""The packets that are in no bin of a recording: late packets, and packets that it missed because it broke off (the gap
behind it)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ...units import format_count, format_duration

if TYPE_CHECKING:
    import duckdb

_COLUMNS = ("recording_id", "start_ns", "end_ns", "reason", "packets", "detail")


def gaps_behind(con: duckdb.DuckDBPyConnection) -> dict[str, dict[str, Any]]:
    """Returns the gap behind each recording that broke off, by recording_id."""
    rows = con.execute(f"SELECT {', '.join(_COLUMNS)} FROM gaps WHERE is_behind_recording(reason)").fetchall()
    return {row[0]: dict(zip(_COLUMNS, row, strict=True)) for row in rows}


def late_text(packets: int) -> str:
    """ "3 packets in no bin: outside the reorder window, or the years 1970 to 2100" """
    return f"{format_count(packets, 'packet')} in no bin: outside the reorder window, or the years 1970 to 2100"


def ending(recording: Mapping[str, Any], gap: Mapping[str, Any] | None) -> str:
    """Returns a sentence on how a row of recordings ended, with the GAP behind it; '' if the recording is complete."""
    if recording["complete"]:
        return ""
    if not recording["ended"]:
        return "the recording has not ended, or was killed: what was lost is not known yet"
    how = f"the recording broke off ({gap['reason'] if gap else recording['ended']})"
    if gap is None:
        return f"{how}: what came after that is not known"
    if gap["end_ns"] is None:
        return f"{how}: what came after that is not known until the interface is recorded again"
    after = f"in the {format_duration(gap['end_ns'] - gap['start_ns'])} after that"
    if gap["packets"] is None:
        return f"{how}: packets were missed {after}, {gap['detail']}"
    return f"{how}: {format_count(gap['packets'], 'packet')} {'was' if gap['packets'] == 1 else 'were'} missed {after}"
