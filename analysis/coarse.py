"""Whether the stamps can carry the bins that are judged: frames that were stamped late make bursts of their own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..errors import MburstError
from ..quality import COARSE_STAMPS
from ..sql.damage import readable
from ..units import format_duration

if TYPE_CHECKING:
    import duckdb

FINE_NS = 100_000  # bins below this need stamps taken on receipt, with nanoseconds

_MOSTLY_COARSE = """
WITH wanted AS (
    SELECT recording_id, host, interface, direction, coalesce($bin_ns, bin_ns) AS judged_ns
    FROM recordings
    WHERE judged_ns < $fine_ns AND (quality & $coarse <> 0 OR ended = '')
      AND ($hosts IS NULL OR list_contains($hosts, host)) AND rack = coalesce($rack, rack)
      AND interface = coalesce($interface, interface) AND direction = coalesce($direction, direction)
      AND recording_id = coalesce($recording, recording_id)
)
SELECT wanted.host, wanted.interface, wanted.direction, judged_ns
FROM bins JOIN wanted USING (recording_id)
WHERE ts_ns >= coalesce($since_ns, ts_ns) AND ts_ns <= coalesce($until_ns - 1, ts_ns)
GROUP BY ALL
HAVING 2 * count(*) FILTER (bins.quality & $coarse <> 0) > count(*)
ORDER BY ALL"""


def too_coarse(name: str, bin_ns: int, remedy: str) -> MburstError:
    """The error that says so of interface NAME; REMEDY is the option that goes on all the same."""
    return MburstError(
        f"{name}: most frames are stamped late or in µs (ring, file-µs), too coarsely for bins of "
        f"{format_duration(bin_ns)}",
        f"use --bin 100us, or --force to {remedy}",
    )


def refuse_coarse(
    con: duckdb.DuckDBPyConnection,
    bin_ns: int | None = None,
    *,
    hosts: list[str] | None = None,
    rack: str | None = None,
    interface: str | None = None,
    direction: str | None = None,
    recording: str | None = None,
    since_ns: int | None = None,
    until_ns: int | None = None,
) -> None:
    """Raise MburstError where a recording would be judged in fine bins (bin_ns, or as stored) most of which have coarse
    stamps. Which recordings, and what time of them: as for `find_bursts`."""
    settings: dict[str, Any] = {
        "bin_ns": bin_ns, "fine_ns": FINE_NS, "coarse": COARSE_STAMPS, "hosts": hosts, "rack": rack,
        "interface": interface, "direction": direction, "recording": recording, "since_ns": since_ns,
        "until_ns": until_ns,
    }  # fmt: skip
    with readable(con):
        row = con.execute(_MOSTLY_COARSE, settings).fetchone()
    if row:
        raise too_coarse(f"{row[0]} {row[1]} {row[2]}", row[3], "judge them all the same")
