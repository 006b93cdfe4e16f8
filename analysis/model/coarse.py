"""Whether timestamps are fine enough for the bins in use: frames that are stamped late produce artificial bursts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...errors import MburstError
from ...quality import COARSE_STAMPS
from ...sql.damage import readable
from ...units import format_duration

if TYPE_CHECKING:
    import duckdb

FINE_NS = 100_000  # bins below this need timestamps taken on receipt, in nanoseconds


def too_coarse(name: str, bin_ns: int, remedy: str) -> MburstError:
    """Returns the error for interface NAME with coarse timestamps; its hint is `--force to REMEDY`."""
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
    """Raise MburstError if bursts would be detected in fine bins (bin_ns, or as stored) and most of these bins have
    coarse timestamps. Recordings and time are selected as for `find_bursts`."""
    settings: dict[str, Any] = {
        "bin_ns": bin_ns, "fine_ns": FINE_NS, "coarse": COARSE_STAMPS, "hosts": hosts, "rack": rack,
        "interface": interface, "direction": direction, "recording": recording, "since_ns": since_ns,
        "until_ns": until_ns,
    }  # fmt: skip
    from ..read import bins as read_bins  # it imports numpy, and a recorder begins to read before that

    with readable(con):
        row = read_bins.mostly_coarse(con, settings)
    if row:
        raise too_coarse(f"{row[0]} {row[1]} {row[2]}", row[3], "use them all the same")
