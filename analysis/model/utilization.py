"""Utilization over time: every recorded bin of a width, including those without a packet."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...errors import MburstError
from ...sql.damage import readable
from .whole import whole_since

if TYPE_CHECKING:
    import duckdb

MOST_BINS = 10_000_000  # in one answer: some 1.5 GB

_CHOSEN = """
CREATE OR REPLACE TEMP TABLE chosen AS
SELECT recording_id, clock_epoch, host, rack, interface, direction, bin_ns AS stored_ns,
       coalesce(CAST($bin_ns AS BIGINT), bin_ns) AS bin_ns,
       coalesce(CAST($link_bps AS BIGINT), link_bps) AS link_bps, start_ns, end_ns,
       stored_bins(coalesce(CAST($bin_ns AS BIGINT), recorded.bin_ns), recorded.bin_ns, host, interface, direction,
                   recording_id) AS factor
FROM recorded
WHERE coalesce(list_contains(CAST($hosts AS VARCHAR[]), host), true) AND rack = coalesce($rack, rack)
  AND interface = coalesce($interface, interface) AND direction = coalesce($direction, direction)
  AND recording_id = coalesce($recording, recording_id)
"""
_WITHIN = """
SELECT *, greatest(bin_start(start_ns, bin_ns),  -- NULL where no time is given: greatest and least pass over it
                   bin_start(CAST($since_ns AS BIGINT) - 1, bin_ns) + bin_ns,
                   bin_start(lag(end_ns) OVER (PARTITION BY recording_id, clock_epoch ORDER BY start_ns) - 1, bin_ns)
                       + bin_ns) AS first_ns,  -- a bin in which some are missing counts once
       least(end_ns, CAST($until_ns AS BIGINT)) AS beyond_ns
FROM chosen
"""
_COUNT = f"SELECT coalesce(sum(greatest(0, (beyond_ns - first_ns + bin_ns - 1) // bin_ns)), 0) FROM ({_WITHIN})"
_BINS = f"""
WITH within AS ({_WITHIN}), slots AS (
    SELECT * EXCLUDE (first_ns, beyond_ns), unnest(range(first_ns, beyond_ns, bin_ns)) AS ts_ns FROM within
), counted AS (
    SELECT recording_id, clock_epoch, bin_start(bins.ts_ns, w.bin_ns) AS ts_ns, CAST(sum(packets) AS BIGINT) AS packets,
           CAST(sum(bytes) AS BIGINT) AS bytes, CAST(sum(wire_bytes) AS BIGINT) AS wire_bytes,
           bit_or(quality) AS quality
    FROM bins JOIN (SELECT DISTINCT recording_id, clock_epoch, bin_ns FROM within) AS w
        USING (recording_id, clock_epoch)
    WHERE bins.ts_ns >= coalesce($since_ns, bins.ts_ns) GROUP BY ALL
)
SELECT ts_ns, host, rack, interface, direction, recording_id, clock_epoch, bin_ns, link_bps,
       least(end_ns, ts_ns + bin_ns) - greatest(start_ns, ts_ns) AS recorded_ns,
       coalesce(packets, 0) AS packets, coalesce(bytes, 0) AS bytes, coalesce(wire_bytes, 0) AS wire_bytes,
       utilization(coalesce(wire_bytes, 0), bin_ns, link_bps) AS utilization,
       CAST(coalesce(quality, 0) AS USMALLINT) AS quality
FROM slots LEFT JOIN counted USING (recording_id, clock_epoch, ts_ns)
ORDER BY host, interface, direction, recording_id, clock_epoch, ts_ns
"""


def bins_of(
    con: duckdb.DuckDBPyConnection, bin_ns: int | None, link_bps: int | None, where: dict[str, Any]
) -> tuple[str, dict[str, Any]] | None:
    """Returns the query of the bins that start in [since_ns, until_ns), and its parameters; None if nothing of WHERE
    (the keywords of detect_bursts) was recorded. CON keeps the table `chosen`, which the query reads. Raises UsageError
    if the width does not fit the recording, and MburstError if there are more than MOST_BINS."""
    names = ("hosts", "rack", "interface", "direction", "recording")
    scope = {name: where[name] for name in ("rack", "hosts")}
    since_ns = whole_since(con, "utilization over time", where["since_ns"], where["until_ns"], **scope)
    span = {"since_ns": since_ns, "until_ns": where["until_ns"]}
    with readable(con):
        con.execute(_CHOSEN, {"bin_ns": bin_ns, "link_bps": link_bps, **{name: where[name] for name in names}})
        [(chosen,)] = con.execute("SELECT count(*) FROM chosen").fetchall()
        [(count,)] = con.execute(_COUNT, span).fetchall()
    if count > MOST_BINS:
        raise MburstError(
            f"{count:,} bins are too many for one answer",
            f"choose a wider bin or a shorter time: up to {MOST_BINS:,} are allowed",
        )
    return (_BINS, span) if chosen else None
