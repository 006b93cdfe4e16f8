"""The names of addresses in the store (the macro named_at of sql/macros.sql), and the names that can be derived from
it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

from .rows import dicts

if TYPE_CHECKING:
    import duckdb

_SENDERS = """
SELECT source FROM sources
WHERE address_bits(source) NOT LIKE 'm%' AND ts_ns >= coalesce($since, ts_ns) AND ts_ns < coalesce($until, ts_ns + 1)
GROUP BY source ORDER BY sum(bytes) DESC, source LIMIT $most
"""
_RECORDED = """
WITH own AS (
    SELECT source AS address, host FROM sources WHERE direction = 'out' AND address_bits(source) NOT LIKE 'm%'
    GROUP BY source, host QUALIFY sum(bytes) * 2 > sum(sum(bytes)) OVER (PARTITION BY host)
), racks AS (
    SELECT host, arg_max(rack, {ns: written_ns, value: rack}) AS rack FROM recordings WHERE rack <> '' GROUP BY host
), attached AS (
    SELECT host, arg_max(rack, {ns: ts_ns, value: rack}) AS rack FROM links WHERE present AND rack <> '' GROUP BY host
)
SELECT address, host, coalesce(racks.rack, attached.rack, '') AS rack
FROM own LEFT JOIN racks USING (host) LEFT JOIN attached USING (host) ORDER BY address, host
"""
_IMPORT = """
SELECT prefix, name, service, located, owner, from_ns, until_ns, kind FROM defined.all_names WHERE origin = $origin
QUALIFY dense_rank() OVER (ORDER BY imported_ns DESC, batch DESC) = 1 ORDER BY ALL
"""
_HELD = """
SELECT prefix, name, service, located AS rack, owner, from_ns, until_ns, origin FROM names
ORDER BY prefix_bits(prefix), from_ns NULLS FIRST, origin
"""


class AddressName(NamedTuple):
    """The name of an address and its attributes; None if unknown."""

    name: str | None = None
    service: str | None = None
    rack: str | None = None
    owner: str | None = None


NAMELESS = AddressName()


def named(con: duckdb.DuckDBPyConnection, addresses: Iterable[str], at_ns: int) -> dict[str, AddressName]:
    """Returns the names of ADDRESSES at a time, for those that have a name, a service, a rack or an owner."""
    if not con.execute("FROM names LIMIT 1").fetchall():
        return {}
    con.execute("CREATE OR REPLACE TEMP TABLE asked_addresses (address VARCHAR, at_ns BIGINT)")
    con.execute("INSERT INTO asked_addresses SELECT DISTINCT unnest($1), $2", [sorted(set(addresses)), at_ns])
    rows = con.execute("SELECT address, name, service, rack, owner FROM named_at('asked_addresses')").fetchall()
    return {address: AddressName(*of) for address, *of in rows}


def held(con: duckdb.DuckDBPyConnection) -> list[dict[str, Any]]:
    """Returns all names with the time in which they are valid, by prefix."""
    return dicts(con, _HELD, {})


def newest_import(con: duckdb.DuckDBPyConnection, origin: str) -> list[tuple[Any, ...]]:
    """Returns the rows of the newest import of ORIGIN: the columns of NamedPrefix, and the kind."""
    return con.execute(_IMPORT, {"origin": origin}).fetchall()


def senders(con: duckdb.DuckDBPyConnection, most: int, since_ns: int | None, until_ns: int | None) -> list[str]:
    """Returns the IP addresses that sent most, up to MOST of them."""
    found = con.execute(_SENDERS, {"most": most, "since": since_ns, "until": until_ns}).fetchall()
    return [address for (address,) in found]


def recorded(con: duckdb.DuckDBPyConnection) -> list[tuple[str, str, str]]:
    """Returns the address, host and rack of the recorded hosts: the address is that of the packets that a host sent.
    The rack is that of its recordings, or of the switch port that it is attached to ('': neither is known)."""
    return con.execute(_RECORDED).fetchall()
