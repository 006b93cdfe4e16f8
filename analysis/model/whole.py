"""From when on a store has every row of what it recorded: compaction keeps less of older days (sql/compaction)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...errors import UsageError
from ...sql.damage import readable
from ...sql.format.filenames import NS_PER_DAY
from ...sql.limits import midnight, note

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
    """From when on there is every bin and sender of [since_ns, until_ns), where that is not the whole of it; else
    None."""
    where = {"rack": rack, "hosts": hosts, "since": since_ns, "until": until_ns}
    with readable(con):
        whole_ns: int | None
        [(whole_ns,)] = con.execute(_THINNED, where).fetchall()
    return whole_ns


def note_probes(con: duckdb.DuckDBPyConnection, since_ns: int | None, until_ns: int | None) -> None:
    """Before a question that needs every probe of [since_ns, until_ns): say from when on there are all."""
    with readable(con):
        [(last_ns,)] = con.execute(_SUMMED, {"since": since_ns, "until": until_ns}).fetchall()
    if last_ns is not None:
        note(
            f"probes until {midnight((last_ns // NS_PER_DAY + 1) * NS_PER_DAY)} are left out: the store keeps sums of "
            'their seconds (`mburst sql STORE "FROM path_quantiles"`)'
        )


def whole_since(
    con: duckdb.DuckDBPyConnection,
    what: str,
    since_ns: int | None,
    until_ns: int | None,
    *,
    rack: str | None = None,
    hosts: list[str] | None = None,
) -> int | None:
    """SINCE_NS of a question that needs every bin and sender of [since_ns, until_ns), and is called WHAT ("a report").
    Where no beginning was chosen (None), that from which on there are all; what is left out before is noted. Raises
    UsageError where the time chosen reaches into compacted days."""
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
