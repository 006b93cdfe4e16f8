"""Queries on the table `sources`, in addition to sql/queries."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .rows import dicts, first

if TYPE_CHECKING:
    import duckdb

_MOST = """
WITH sent AS (
    SELECT source, CAST(round(sum(part_within(bytes, first_ns, last_ns, $since, $until))) AS BIGINT) AS bytes,
           CAST(round(sum(part_within(packets, first_ns, last_ns, $since, $until))) AS BIGINT) AS packets,
           max(members) AS members
    FROM sources
    WHERE recording_id IN (SELECT unnest($ids)) AND last_ns >= $since AND ts_ns < $until AND first_ns < $until
    GROUP BY source
), burst AS (
    SELECT source, CAST(round(sum(bytes)) AS BIGINT) AS bytes FROM report_senders
    WHERE recording_id IN (SELECT unnest($ids)) GROUP BY source
)
SELECT sent.*, coalesce(burst.bytes, 0) AS burst_bytes, count(*) FILTER (source <> 'other') OVER () AS senders,
    coalesce(max(members) FILTER (source = 'other') OVER (), 0) AS others,
    CAST(sum(sent.bytes) OVER () AS BIGINT) AS all_bytes
FROM sent LEFT JOIN burst USING (source) ORDER BY burst_bytes DESC, sent.bytes DESC, source LIMIT $limit
"""
_OUT = "host = $host AND interface = $interface AND direction = 'out'"
_SPAN = f"""
SELECT min(ts_ns), max(ts_ns) + width_ns, width_ns
FROM sources, (SELECT max(source_bin_ns) AS width_ns FROM recordings WHERE host = $host)
WHERE {_OUT} GROUP BY width_ns
"""
_FAN_OUTS = f"""
SELECT first_ns, flows, coalesce(destination_port, 0) AS port FROM sources
WHERE {_OUT} AND source <> 'other' AND flows >= $least ORDER BY first_ns
"""
_PORTS = """
SELECT number, arg_max(port, bytes) FILTER (port > 0), max(bytes) FILTER (port > 0) * 2 > sum(bytes)
FROM (SELECT number, coalesce(source_port, 0) AS port, sum(bytes) AS bytes
      FROM sources JOIN members USING (source)
      WHERE host = $host AND interface = $interface AND direction <> 'out' GROUP BY ALL)
GROUP BY number
"""


def most_in_bursts(con: duckdb.DuckDBPyConnection, where: dict[str, Any], limit: int) -> list[dict[str, Any]]:
    """Returns the senders of most bytes in bursts (by the table report_senders) of a slice of recordings ($ids, $since,
    $until); each row also has the number of all senders, without those that are recorded together (`other`), the most
    that these are at once (0: none), and the bytes of all. A sender's bin that reaches beyond the slice counts by the
    part of its time, first to last packet, in it. A slice without time has none."""
    return dicts(con, _MOST, {"limit": limit, **where}) if where["since"] < where["until"] else []


def sent_span(con: duckdb.DuckDBPyConnection, host: str, interface: str) -> tuple[Any, ...] | None:
    """Returns the time from the start of the first to the end of the last source bin in which a host sent on an
    interface, and the width of these bins; None if its outgoing direction is not recorded."""
    return first(con, _SPAN, {"host": host, "interface": interface})


def fan_outs(con: duckdb.DuckDBPyConnection, host: str, interface: str, least: int) -> dict[str, Any]:
    """Returns source bins in which the host sent on LEAST flows or more, by time, as arrays: `first_ns`, `flows`, and
    the `port` of most of them (0: no port has most)."""
    return con.execute(_FAN_OUTS, {"host": host, "interface": interface, "least": least}).fetchnumpy()


def ports_of(con: duckdb.DuckDBPyConnection, lane: tuple[str, str], groups: list[list[str]]) -> list[tuple[Any, ...]]:
    """Returns, for each group of senders to a host and interface, its number, the port that most bytes come from, and
    whether that port has the majority."""
    con.execute("CREATE OR REPLACE TEMP TABLE members (number INTEGER, source VARCHAR)")
    con.execute(
        "INSERT INTO members SELECT unnest($1), unnest($2)",
        [[k for k, group in enumerate(groups) for _ in group], [name for group in groups for name in group]],
    )
    return con.execute(_PORTS, {"host": lane[0], "interface": lane[1]}).fetchall()
