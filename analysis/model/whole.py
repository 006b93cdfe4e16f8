"""The time from which on a store has every row of its recordings: compaction keeps less of older days
(sql/compaction)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...errors import UsageError
from ...sql.damage import readable
from ...sql.limits import midnight, note
from ...units import NS_PER_DAY

if TYPE_CHECKING:
    import duckdb

_THINNED = """
SELECT max(end_ns) FROM thinned
WHERE coalesce(rack = $rack, true) AND coalesce(list_contains(CAST($hosts AS VARCHAR[]), host), true)
  AND coalesce(end_ns > $since, true) AND coalesce(start_ns < $until, true)
"""

_SUMMED = """
SELECT max(ts_ns) FROM latency_steps
WHERE coalesce(ts_ns >= $since, true) AND coalesce(ts_ns < $until, true)
"""


def whole_from(
    con: duckdb.DuckDBPyConnection,
    since_ns: int | None,
    until_ns: int | None = None,
    *,
    rack: str | None = None,
    hosts: list[str] | None = None,
) -> int | None:
    """Returns the time from which on every bin and sender of [since_ns, until_ns) is there; None if all of them are."""
    where = {"rack": rack, "hosts": hosts, "since": since_ns, "until": until_ns}
    with readable(con):
        whole_ns: int | None
        [(whole_ns,)] = con.execute(_THINNED, where).fetchall()
    return whole_ns


def note_probes(con: duckdb.DuckDBPyConnection, since_ns: int | None, until_ns: int | None) -> None:
    """Note, before a query that needs every probe of [since_ns, until_ns), the time from which on all of them are
    there."""
    if (whole_ns := probes_from(con, since_ns, until_ns)) is not None:
        note(
            f"probes until {midnight(whole_ns)} are left out: the store keeps sums of their seconds (`mburst sql STORE "
            '"FROM path_quantiles"`)'
        )


def probes_from(con: duckdb.DuckDBPyConnection, since_ns: int | None, until_ns: int | None = None) -> int | None:
    """Returns the time from which on every probe of [since_ns, until_ns) is there; None if all of them are."""
    with readable(con):
        [(last_ns,)] = con.execute(_SUMMED, {"since": since_ns, "until": until_ns}).fetchall()
    return None if last_ns is None else (last_ns // NS_PER_DAY + 1) * NS_PER_DAY


def whole_since(
    con: duckdb.DuckDBPyConnection,
    what: str,
    since_ns: int | None,
    until_ns: int | None,
    *,
    rack: str | None = None,
    hosts: list[str] | None = None,
) -> int | None:
    """Returns SINCE_NS for a query that needs every bin and sender of [since_ns, until_ns); WHAT names it ("a report").
    If SINCE_NS is None, returns the time from which on all of them are there, and notes that earlier data is left out.
    Raises UsageError if the chosen time reaches into compacted days."""
    whole_ns = whole_from(con, since_ns, until_ns, rack=rack, hosts=hosts)
    if whole_ns is None:
        return since_ns
    if since_ns is not None or (until_ns is not None and until_ns <= whole_ns):
        raise UsageError(
            f"before {midnight(whole_ns)} this store was compacted, and {what} needs every bin",
            "choose a later time; `mburst bursts` and `mburst report --rack` answer for compacted days",
        )
    note(f"{what} leaves out the time before {midnight(whole_ns)}: the store was compacted")
    return whole_ns
