"""Queries on canary bursts: the traffic of their sender, the recordings around them, and the results of earlier
readings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...sql.damage import readable
from .rows import dicts

if TYPE_CHECKING:
    import duckdb

_LANES = """
SELECT recording_id, any_value(r.host) AS host, any_value(r.rack) AS rack, any_value(r.interface) AS interface,
       any_value(r.direction) AS direction, any_value(r.link_bps) AS link_bps, any_value(r.bin_ns) AS bin_ns,
       any_value(r.source_bin_ns) AS source_bin_ns, min(s.first_ns) AS first_ns, max(s.last_ns) AS last_ns,
       CAST(sum(s.packets) AS BIGINT) AS packets
FROM sources s JOIN recordings r USING (recording_id)
WHERE s.source = $source AND coalesce(r.host = $host, true)
GROUP BY recording_id ORDER BY host, interface, direction, first_ns, recording_id
"""
_CAME = """
SELECT clock_epoch, first_ns, last_ns, packets, bytes FROM sources
WHERE source = $source AND recording_id = $recording ORDER BY clock_epoch, first_ns
"""
_QUALITY = """
SELECT number, bit_or(quality) AS quality
FROM bins JOIN canary_spans
    ON bins.clock_epoch = canary_spans.clock_epoch AND ts_ns < end_ns AND ts_ns + $bin > start_ns
WHERE recording_id = $recording AND ts_ns < (SELECT max(end_ns) FROM canary_spans)
  AND ts_ns + $bin > (SELECT min(start_ns) FROM canary_spans)
GROUP BY number
"""
_SUMMED = """
SELECT DISTINCT number
FROM sources JOIN canary_spans
    ON sources.clock_epoch = canary_spans.clock_epoch AND ts_ns < end_ns AND ts_ns + $source_bin > start_ns
WHERE recording_id = $recording AND source = 'other' AND ts_ns < (SELECT max(end_ns) FROM canary_spans)
  AND ts_ns + $source_bin > (SELECT min(start_ns) FROM canary_spans)
"""
_FOUND = """
SELECT b.clock_epoch, b.start_ns, b.end_ns, b.quality, CAST(round(coalesce(s.bytes, 0)) AS BIGINT) AS bytes,
       coalesce(s.share, 0) AS share
FROM bursts b LEFT JOIN (SELECT burst, bytes, share FROM burst_sources WHERE source = $source) s USING (burst)
ORDER BY b.start_ns
"""
_BEHIND = """
SELECT coalesce(sum(packets), 0) AS packets, coalesce(bool_and(newest >= last_ns), false) AS binned
FROM (SELECT recording_id, sum(packets) AS packets, max(last_ns) AS last_ns FROM sources
      WHERE source = $source AND ts_ns >= $since GROUP BY recording_id)
JOIN (SELECT recording_id, max(ts_ns) + any_value(bin_ns) AS newest
      FROM bins JOIN (SELECT recording_id, bin_ns FROM recordings) USING (recording_id)
      WHERE ts_ns >= $since GROUP BY recording_id) USING (recording_id)
"""


def lanes_with(con: duckdb.DuckDBPyConnection, source: str, host: str | None) -> list[dict[str, Any]]:
    """Returns the recordings in which SOURCE sent something; only of HOST if it is given."""
    return dicts(con, _LANES, {"source": source, "host": host})


def came(con: duckdb.DuckDBPyConnection, source: str, recording: str) -> list[dict[str, Any]]:
    """Returns the traffic of SOURCE in a recording, by its source bins."""
    return dicts(con, _CAME, {"source": source, "recording": recording})


def qualities(
    con: duckdb.DuckDBPyConnection, recording: str, bin_ns: int, spans: list[tuple[int, int, int, int]]
) -> dict[int, int]:
    """Returns, by number, the quality of the bins in spans of time: (number, clock epoch, start, end)."""
    _keep_spans(con, spans)
    return {row["number"]: row["quality"] for row in dicts(con, _QUALITY, {"recording": recording, "bin": bin_ns})}


def _keep_spans(con: duckdb.DuckDBPyConnection, spans: list[tuple[int, int, int, int]]) -> None:
    con.execute(
        "CREATE OR REPLACE TEMP TABLE canary_spans "
        "(number BIGINT, clock_epoch USMALLINT, start_ns BIGINT, end_ns BIGINT)"
    )
    con.execute(
        "INSERT INTO canary_spans SELECT unnest($1), unnest($2), unnest($3), unnest($4)",
        [list(column) for column in zip(*spans, strict=True)] if spans else [[], [], [], []],
    )


def summed(
    con: duckdb.DuckDBPyConnection, recording: str, source_bin_ns: int, spans: list[tuple[int, int, int, int]]
) -> set[int]:
    """Returns the numbers of the spans, as in qualities(), in which senders were summed up as `other`; the sender of
    canary bursts may be one of them."""
    _keep_spans(con, spans)
    rows = dicts(con, _SUMMED, {"recording": recording, "source_bin": source_bin_ns})
    return {row["number"] for row in rows}


def found(con: duckdb.DuckDBPyConnection, source: str) -> list[dict[str, Any]]:
    """Returns the bursts that detect_bursts left in CON, with the part of SOURCE in each."""
    with readable(con):
        return dicts(con, _FOUND, {"source": source})


def bursts_of_canaries(con: duckdb.DuckDBPyConnection) -> dict[int, str]:
    """Returns the bursts that `mburst canary` sent among those that detect_bursts left in CON, by number, with their
    senders."""
    query = "SELECT burst, source FROM bursts JOIN burst_sources USING (burst) WHERE pattern = 'canary' AND place = 1"
    with readable(con):
        return {row["burst"]: row["source"] for row in dicts(con, query, {})}


def recording_qualities(con: duckdb.DuckDBPyConnection) -> dict[str, int]:
    """Returns the quality of each recording as a whole, by its id."""
    rows = dicts(con, "SELECT recording_id, quality FROM recordings", {})
    return {row["recording_id"]: row["quality"] for row in rows}


def recorded_of(con: duckdb.DuckDBPyConnection, source: str, since_ns: int) -> tuple[int, bool]:
    """Returns how many packets of SOURCE are stored since then, over all recordings, and whether the bins of all of
    them are stored."""
    [row] = dicts(con, _BEHIND, {"source": source, "since": since_ns})
    return int(row["packets"]), bool(row["binned"])


def readings(con: duckdb.DuckDBPyConnection) -> list[dict[str, Any]]:
    """Returns the rows of `canary`."""
    with readable(con):
        return dicts(con, "FROM canary ORDER BY host, interface, direction, start_ns, number", {})
