"""What stays of a day of recordings: bins and senders around what may be a burst, and one-second sums of all bins."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from .files import DayName
from .rules import Detail, KeepRules
from .seconds import sum_up

if TYPE_CHECKING:
    import duckdb

HERE = Path(__file__).parent
# Widths of bins, wider than the time that is kept around each full bin, for which bursts stay the same.
WIDTHS_NS = (20_000_000, 50_000_000, 100_000_000, 200_000_000, 500_000_000, 1_000_000_000)
_NO_LIMITS = "CREATE OR REPLACE TEMP TABLE limits (lane INTEGER, width_ns BIGINT, full_bytes BIGINT, gap_ns BIGINT)"
_NOTHING = "CREATE OR REPLACE TEMP TABLE kept (lane INTEGER, clock_epoch USMALLINT, start_ns BIGINT, end_ns BIGINT)"
_BESIDE = """
    CREATE OR REPLACE TEMP VIEW beside AS
    FROM day_near_bins WHERE ts_ns >= getvariable('near_since_ns') AND ts_ns < getvariable('near_until_ns')
"""
NEAR_NS = 10 * 10**9  # of the adjacent days: more than the distance at which two of the widest bins are joined


@dataclass(frozen=True)
class CompactedLane:
    """The properties of a recording that matter here."""

    recording_id: str
    host: str
    rack: str
    interface: str
    direction: str
    bin_ns: int
    source_bin_ns: int
    link_bps: int | None


def lanes(store: duckdb.DuckDBPyConnection) -> dict[str, CompactedLane]:
    """The recordings of the store of the connection, by id."""
    found = store.execute(
        "SELECT recording_id, host, rack, interface, direction, bin_ns, source_bin_ns, link_bps FROM recordings"
    ).fetchall()
    return {row[0]: CompactedLane(*row) for row in found}


def load_lanes(connection: duckdb.DuckDBPyConnection, thinned: Iterable[CompactedLane], of_day: Iterable[str]) -> None:
    """Load the recordings that are thinned into `lanes`, and those OF_DAY (all that day_bins and day_sources have) that
    are not thinned into `untouched`."""
    import pyarrow as pa

    every = list(thinned)
    rows = {
        "lane": pa.array(range(len(every)), pa.int32()),
        **{
            name: pa.array([getattr(lane, name) for lane in every], pa.string())
            for name in ("recording_id", "host", "rack", "interface", "direction")
        },
        **{
            name: pa.array([getattr(lane, name) for lane in every], pa.int64())
            for name in ("bin_ns", "source_bin_ns", "link_bps")
        },
    }
    connection.register("given_lanes", pa.table(rows))
    connection.execute("CREATE OR REPLACE TEMP TABLE lanes AS FROM given_lanes")
    others = sorted({*of_day} - {lane.recording_id for lane in every})
    connection.register("given_others", pa.table({"recording_id": pa.array(others, pa.string())}))
    connection.execute("CREATE OR REPLACE TEMP TABLE untouched AS FROM given_others")


def prepare(connection: duckdb.DuckDBPyConnection, name: DayName, rules: KeepRules, detail: Detail) -> None:
    """Set up what depends only on RULES, for reducing the loaded recordings to DETAIL: which bins are full, and which
    bins of the adjacent days (view day_near_bins) matter."""
    settings = {
        "threshold_ppb": rules.threshold_ppb,
        "around_ns": rules.around_ns,
        "widths": list(WIDTHS_NS),
        "near_since_ns": name.start_ns - NEAR_NS,
        "near_until_ns": name.end_ns + NEAR_NS,
    }
    for key, value in settings.items():
        connection.execute(f"SET VARIABLE {key} = ?", [value])
    connection.execute(_text("limits") if detail is Detail.BURSTS else _NO_LIMITS)
    connection.execute(_BESIDE)


def steps(connection: duckdb.DuckDBPyConnection) -> duckdb.DuckDBPyRelation:
    """The rows of `steps` from the view day_bins, for the loaded recordings. `keep` needs what this finds."""
    seconds, islands = sum_up(connection)
    connection.register("seconds", seconds)
    connection.register("islands", islands)
    return connection.sql(_text("steps"))


def keep(connection: duckdb.DuckDBPyConnection, detail: Detail) -> None:
    """Make the views kept_bins and kept_sources: what stays of the views day_bins and day_sources if the loaded
    recordings are reduced to DETAIL and all rows of others stay."""
    connection.execute(_text("spans") if detail is Detail.BURSTS else _NOTHING)
    connection.execute(_text("rows"))


def latency_steps(connection: duckdb.DuckDBPyConnection) -> duckdb.DuckDBPyRelation:
    """The rows of `latency_steps` from the view day_probes."""
    return connection.sql(_text("latency"))


def spans(connection: duckdb.DuckDBPyConnection, name: DayName) -> duckdb.DuckDBPyRelation:
    """The rows of `kept` for the recordings that `prepare` thinned."""
    return connection.sql(
        """SELECT recording_id, host, rack, interface, direction, clock_epoch, greatest(start_ns, $start) AS start_ns,
                  least(end_ns, $end) AS end_ns
           FROM kept JOIN lanes USING (lane) WHERE start_ns < $end AND end_ns > $start
           ORDER BY lane, clock_epoch, start_ns""",
        params={"start": name.start_ns, "end": name.end_ns},
    )


def marks(
    connection: duckdb.DuckDBPyConnection, name: DayName, rules: KeepRules, detail: Detail
) -> duckdb.DuckDBPyRelation:
    """The rows of `thinned` for the recordings that `prepare` thinned."""
    kept = detail is Detail.BURSTS
    return connection.sql(
        """SELECT recording_id, host, rack, interface, direction, CAST($start AS BIGINT) AS start_ns,
                  CAST($end AS BIGINT) AS end_ns, CAST($threshold AS BIGINT) AS threshold_ppb, link_bps,
                  CAST($around AS BIGINT) AS around_ns, CAST($now AS BIGINT) AS written_ns
           FROM lanes ORDER BY lane""",
        params={
            "start": name.start_ns,
            "end": name.end_ns,
            "threshold": rules.threshold_ppb if kept else None,
            "around": rules.around_ns if kept else 0,
            "now": time.time_ns(),
        },
    )


def _text(name: str) -> str:
    return (HERE / f"{name}.sql").read_text(encoding="utf-8")
