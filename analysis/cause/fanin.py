"""The senders of bursts: the groups of senders that recur, and what triggers them.

Works on the table `burst_sources` that find_bursts() leaves in the connection, with one row per sender and burst.
"""

from __future__ import annotations

import ipaddress
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ..model.stats import quantiles
from ..read.names import AddressName, named
from .trigger import Trigger, services, trigger

if TYPE_CHECKING:
    import duckdb

ALIKE = 0.5  # Jaccard index: two bursts with at least half of their senders in common are in one group
CORE = 0.8  # a member of a group sends in at least this share of its bursts
MOST = 20_000  # bursts that are grouped: the largest ones
LOOKED_UP = 10  # groups with their service and trigger looked up


@dataclass(frozen=True)
class Group:
    """Bursts with mostly the same senders.

    called: the names of members when the last burst began; services: the services of members by these names, as for a
    burst (analysis/bursts/find.py). Both are looked up for the first LOOKED_UP groups."""

    name: str
    bursts: list[int]  # numbers in burst_sources
    members: list[str]
    share_of_bytes: float  # of all bursts' bytes
    member_share: float  # of the group's bytes that its members sent
    fan_in: int  # median
    onset_spread_ns: float | None  # median
    pattern: str  # the most frequent
    racks: list[str]
    called: dict[str, AddressName]
    services: list[dict[str, Any]]
    share_of_lateness: float | None = None  # of the lateness in all bursts; None unless they are the cause
    port: int | None = None  # from which most of its members' bytes come; looked up for the first LOOKED_UP groups
    trigger: Trigger | None = None  # looked up for the same groups


def groups(
    con: duckdb.DuckDBPyConnection,
    bursts: list[dict[str, Any]],
    addresses: dict[str, str] | None = None,
    lateness: Mapping[int, float] | None = None,
) -> list[Group]:
    """Returns groups of bursts by their senders, most bytes first. addresses: of recorded hosts; they give the racks.
    lateness: that each burst caused, by its number: the groups with most of it come first."""
    largest = sorted(bursts, key=lambda burst: -burst["bytes"])[:MOST]
    by_number = {burst["burst"]: burst for burst in largest}
    con.execute(
        """CREATE OR REPLACE TEMP TABLE counted AS SELECT burst, source, bytes FROM burst_sources
           WHERE counted AND known AND burst IN (SELECT unnest($bursts))""",
        {"bursts": list(by_number)},
    )
    sets = con.execute(
        """SELECT members, list(burst) FROM (
             SELECT burst, list(source ORDER BY source) AS members FROM counted GROUP BY burst) GROUP BY members"""
    ).fetchall()
    together = cluster({frozenset(members): numbers for members, numbers in sets})
    total = sum(burst["bytes"] for burst in largest) or 1
    racks = dict(con.execute("SELECT DISTINCT host, rack FROM recordings WHERE rack <> ''").fetchall())
    racks |= {address: racks[host] for address, host in (addresses or {}).items() if host in racks}
    sent = sent_by_group(con, together)
    found = [summarize(numbers, sent[k], by_number, total, racks) for k, numbers in enumerate(together)]
    if lateness and (whole := sum(lateness.values())):
        shares = [sum(lateness.get(number, 0.0) for number in group.bursts) / whole for group in found]
        found = [replace(group, share_of_lateness=share) for group, share in zip(found, shares, strict=True)]
    found.sort(key=lambda group: (-(group.share_of_lateness or 0.0), -group.share_of_bytes))
    into = [into_one_port([by_number[number] for number in group.bursts]) for group in found[:LOOKED_UP]]
    for lane, of in by_lane(into).items():
        for k, port in zip(of, services(con, lane, [found[k].members for k in of]), strict=True):
            group = replace(found[k], port=port, trigger=trigger(con, into[k], len(into)))
            found[k] = with_names(con, group, by_number[group.bursts[-1]]["start_ns"])
    return found


def into_one_port(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Returns the bursts into the host and interface that received most bytes of ROWS: requests and service ports are
    those of one host."""
    received: Counter[tuple[str, str]] = Counter()
    for row in rows:
        received[row["host"], row["interface"]] += row["bytes"]
    most = max(received, key=lambda lane: (received[lane], lane))
    return [row for row in rows if (row["host"], row["interface"]) == most]


def by_lane(groups: list[list[dict[str, Any]]]) -> dict[tuple[str, str], list[int]]:
    """Returns the places of these groups of bursts by the host and interface that their bursts came into."""
    places: dict[tuple[str, str], list[int]] = {}
    for k, rows in enumerate(groups):
        places.setdefault((rows[0]["host"], rows[0]["interface"]), []).append(k)
    return places


def cluster(sets: dict[frozenset[str], list[int]]) -> list[list[int]]:
    """Returns groups of burst numbers. The distinct sets of senders, most frequent first, each join the first group
    with a similar founding set, or found a new group. sets: each set with the numbers of its bursts."""
    founders: list[tuple[frozenset[str], list[int]]] = []
    for members, numbers in sorted(sets.items(), key=lambda item: (-len(item[1]), min(item[1]))):
        for founder, joined in founders:
            if len(founder & members) >= ALIKE * len(founder | members):
                joined.extend(numbers)
                break
        else:
            founders.append((members, list(numbers)))
    return [sorted(numbers) for _, numbers in founders]


def sent_by_group(con: duckdb.DuckDBPyConnection, groups: list[list[int]]) -> dict[int, list[tuple[str, int, float]]]:
    """Returns, for each group of bursts by its index, each sender with the number of bursts in which it sent, and its
    bytes."""
    found: dict[int, list[tuple[str, int, float]]] = {k: [] for k in range(len(groups))}
    con.execute("CREATE OR REPLACE TEMP TABLE grouped (place INTEGER, burst BIGINT)")
    con.execute(
        "INSERT INTO grouped SELECT unnest($1), unnest($2)",
        [[k for k, numbers in enumerate(groups) for _ in numbers], [n for numbers in groups for n in numbers]],
    )
    rows = con.execute(
        """SELECT place, source, count(*), CAST(sum(whole) AS BIGINT)  -- of integers: the same in any order
           FROM (SELECT burst, source, CAST(round(bytes) AS BIGINT) AS whole FROM counted) JOIN grouped USING (burst)
           GROUP BY place, source ORDER BY place, source"""
    ).fetchall()
    for place, source, times, amount in rows:
        found[place].append((source, times, amount))
    return found


def summarize(
    numbers: list[int],
    senders: list[tuple[str, int, float]],
    bursts: dict[int, dict[str, Any]],
    total: int,
    racks: dict[str, str],
) -> Group:
    """Returns the common properties of the bursts of a group. senders: name, bursts and bytes of each."""
    sent = {source: amount for source, _, amount in senders}
    members = sorted((source for source, times, _ in senders if times >= CORE * len(numbers)), key=address_order)
    rows = [bursts[number] for number in numbers]
    spreads = np.array([row["onset_spread_ns"] for row in rows if row["onset_spread_ns"] is not None], dtype=float)
    bytes_ = sum(row["bytes"] for row in rows)
    return Group(
        name=common_name(members) if members else "changing senders",
        bursts=numbers,
        members=members,
        share_of_bytes=bytes_ / total,
        member_share=min(1.0, sum(sent[source] for source in members) / bytes_) if bytes_ else 0.0,
        fan_in=int(np.median([row["fan_in"] for row in rows])),
        onset_spread_ns=quantiles(spreads, [0.5])[0],
        pattern=Counter(row["pattern"] for row in rows).most_common(1)[0][0],
        racks=sorted({racks[source] for source in members if source in racks}),
        called={},
        services=[],
    )


def with_names(con: duckdb.DuckDBPyConnection, group: Group, at_ns: int) -> Group:
    """Returns the group with the names of its members at a time."""
    called = named(con, group.members, at_ns)
    racks = {of.rack for of in called.values() if of.rack}
    return replace(group, called=called, services=services_of(called.values()), racks=sorted({*group.racks, *racks}))


def services_of(called: Collection[AddressName]) -> list[dict[str, Any]]:
    """Returns the services among the names of senders: how many senders, and in which racks; most first."""
    counts = Counter(of.service for of in called if of.service)
    places = Counter((of.service, of.rack) for of in called if of.rack)
    return [
        {
            "service": service,
            "senders": senders,
            "racks": [
                {"rack": rack, "senders": there}
                for (of, rack), there in sorted(places.items(), key=lambda place: (-place[1], place[0]))
                if of == service
            ],
        }
        for service, senders in sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    ]


def address_order(source: str) -> tuple[int, int, str]:
    """Returns a sort key: addresses by number, other names after them."""
    try:
        address = ipaddress.ip_address(source)
    except ValueError:
        return 99, 0, source
    return address.version, int(address), ""


def common_name(members: list[str]) -> str:
    """Returns the longest prefix that contains all members; for a single member, its name."""
    if len(members) == 1:
        return members[0]
    try:
        addresses = [ipaddress.ip_address(member) for member in members]
    except ValueError:
        return f"{members[0]} and {len(members) - 1} more"
    width = addresses[0].max_prefixlen
    if len({address.version for address in addresses}) > 1:
        return f"{members[0]} and {len(members) - 1} more"
    differing = int(min(addresses)) ^ int(max(addresses))
    prefix = width - differing.bit_length()
    network = ipaddress.ip_network((int(addresses[0]) >> (width - prefix) << (width - prefix), prefix))
    return f"{network} ({len(members)} senders)"
