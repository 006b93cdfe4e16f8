"""Queries on the table `probes`, in addition to the views `latency` and `path_latency`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .rows import dicts

if TYPE_CHECKING:
    import duckdb

_CELLS = """
WITH seen AS (
    SELECT tx_ns, lost, CASE WHEN NOT lost THEN latency_by(
        $measure, app_send_ns, tx_ns, remote_rx_ns, remote_tx_ns, rx_ns, app_recv_ns, rtt_ns) END AS latency
    FROM probes WHERE src = $src AND dst = $dst AND protocol = $protocol AND tx_ns >= $since AND tx_ns < $until
)
SELECT coalesce(arg_max(tx_ns, first_largest(latency, tx_ns)), min(tx_ns)) AS at, max(latency) AS largest,
    quantile_disc(latency, 0.5) AS median, count(latency) AS n, count(*) FILTER (WHERE lost) AS lost
FROM seen GROUP BY CASE WHEN $width = 0 THEN tx_ns ELSE tx_ns // greatest($width, 1) END ORDER BY 1
"""
_SPAN = "coalesce($since, -9223372036854775808), coalesce($until, 9223372036854775807)"
_WHERE = """
    (batch = $batch OR $batch IS NULL) AND (src = $src OR $src IS NULL) AND (dst = $dst OR $dst IS NULL)
    AND (protocol = $protocol OR $protocol IS NULL)
    AND tx_ns >= coalesce($since, -9223372036854775808) AND tx_ns < coalesce($until, 9223372036854775807)
"""
STAMPS = ("app_send_ns", "tx_ns", "remote_rx_ns", "remote_tx_ns", "rx_ns", "app_recv_ns")


def sound(column: str) -> str:
    """Returns the expression of a column in queries of `probes`: NULL if its clock was set back during the probe."""
    if column not in ("rx_ns", "app_recv_ns", "rtt_ns"):
        return column
    return f"CASE WHEN in_order(app_send_ns, tx_ns, rx_ns, app_recv_ns) THEN {column} END"


_PATHS = f"""
SELECT src, dst, protocol, start_ns, end_ns, sent, lost, stamps, coalesce(measure, '') AS measure,
       coalesce(round_trip_measure, '') AS round_trip
FROM path_measures('probes', {_SPAN}, $batch)
JOIN (SELECT src, dst, protocol, min(tx_ns) AS start_ns, max(tx_ns) AS end_ns,
             coalesce(string_agg(DISTINCT stamp_kind, ', ' ORDER BY stamp_kind)
                 FILTER (WHERE stamp_kind <> '' AND NOT lost), '') AS stamps
      FROM probes WHERE {_WHERE} GROUP BY ALL) USING (src, dst, protocol)
ORDER BY src, dst, protocol
"""
_EXCHANGES = f"""
SELECT {", ".join(f"{sound(name)} - $origin AS {name}" for name in STAMPS)}, {sound("rtt_ns")} AS rtt_ns, lost,
       clock_error_ns,
       CASE WHEN NOT lost THEN latency_by($measure, {", ".join(STAMPS)}, rtt_ns) END AS latency,
       CASE WHEN NOT lost THEN latency_by($round_trip, {", ".join(STAMPS)}, rtt_ns) END AS round_trip
FROM (FROM probes WHERE {_WHERE} AND seq % $every = 0) ORDER BY tx_ns, seq
"""
_UNPLACED = """
SELECT count(*) FROM probes WHERE tx_ns >= $since AND tx_ns < $until
    AND probe_host(src) NOT IN (SELECT host FROM rack_recordings)
    AND probe_host(dst) NOT IN (SELECT host FROM rack_recordings)
"""

Path = dict[str, Any]  # src, dst, protocol


def cells(
    con: duckdb.DuckDBPyConnection, path: Path, since_ns: int, until_ns: int, measure: str | None, width_ns: int
) -> dict[str, Any]:
    """Returns the probes of a path in cells of WIDTH_NS (0: single probes), as arrays by name: `at`, when the slowest
    one was sent; `largest` and `median` latency (ns, by MEASURE); `n`, the measured probes; `lost`."""
    return con.execute(
        _CELLS, {**path, "since": since_ns, "until": until_ns, "measure": measure, "width": width_ns}
    ).fetchnumpy()


def paths(con: duckdb.DuckDBPyConnection, selected: dict[str, Any]) -> list[dict[str, Any]]:
    """Returns the paths of the SELECTED probes (by the variables batch, src, dst, protocol, since, until; None selects
    all)."""
    return dicts(con, _PATHS, selected)


def exchanges(
    con: duckdb.DuckDBPyConnection, selected: dict[str, Any], origin_ns: int, every: int, measure: str, round_trip: str
) -> dict[str, Any]:
    """Returns every EVERYth of the SELECTED probes of a path by time: STAMPS since ORIGIN_NS, and latencies by both
    measures, ns."""
    return con.execute(
        _EXCHANGES, {**selected, "origin": origin_ns, "every": every, "measure": measure, "round_trip": round_trip}
    ).fetchnumpy()


def unplaced(con: duckdb.DuckDBPyConnection, since_ns: int, until_ns: int) -> int:
    """Returns how many probes were sent in that time between hosts that are not in the table rack_recordings: those of
    other racks, or without a recording of that time."""
    return int(con.execute(_UNPLACED, {"since": since_ns, "until": until_ns}).fetchall()[0][0])
