"""Whose bursts: the groups of senders that recur, what set them off, and who else bursts at the same time.

Works on what find_bursts() leaves in the connection: the table `burst_sources`, one row a sender and burst.
"""

from __future__ import annotations

import ipaddress
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from .stats import quantiles

if TYPE_CHECKING:
    import duckdb

ALIKE = 0.5  # Jaccard index: two bursts with at least half of their senders in common are of one group
CORE = 0.8  # a member of a group sends in at least this share of its bursts
MOST = 20_000  # bursts that are grouped: the largest ones
LEAD_NS = 10_000_000  # how long before a burst its trigger is looked for
FEWEST = 3  # flows that make a fan-out


@dataclass(frozen=True)
class Trigger:
    """Requests that the host sent just before its bursts came. flows: distinct ones in the requests' source bin."""

    flows: int  # median
    lead_ns: float  # median, from the first request to the first frame of the burst
    share: float  # of the bursts that have such a fan-out before them
    usual: float  # share of all source bins with such a fan-out: what chance would give


@dataclass(frozen=True)
class Group:
    """Bursts with mostly the same senders."""

    name: str
    bursts: list[int]  # numbers in burst_sources
    members: list[str]
    share_of_bytes: float  # of all bursts' bytes
    member_share: float  # of the group's bytes that its members sent
    fan_in: int  # median
    onset_spread_ns: float | None  # median
    pattern: str  # the commonest
    racks: list[str]
    trigger: Trigger | None


@dataclass(frozen=True)
class Contention:
    """Hosts of one rack that burst in the same moments."""

    hosts: int
    share: float  # of bursts that overlap one of another host of their rack
    most: int  # hosts bursting at once, largest


def groups(con: duckdb.DuckDBPyConnection, bursts: list[dict[str, Any]]) -> list[Group]:
    """Groups of bursts by who sent them, most bytes first."""
    largest = sorted(bursts, key=lambda burst: -burst["bytes"])[:MOST]
    by_number = {burst["burst"]: burst for burst in largest}
    rows = con.execute(
        """SELECT burst, list(source ORDER BY source), list(bytes ORDER BY source) FROM burst_sources
           WHERE counted AND known AND list_contains($bursts, burst) GROUP BY burst""",
        {"bursts": list(by_number)},
    ).fetchall()
    senders = {burst: dict(zip(sources, amounts, strict=True)) for burst, sources, amounts in rows}
    total = sum(burst["bytes"] for burst in largest) or 1
    racks = dict(con.execute("SELECT DISTINCT host, rack FROM runs WHERE rack <> ''").fetchall())
    found = [summarize(con, numbers, senders, by_number, total, racks) for numbers in cluster(senders)]
    return sorted(found, key=lambda group: -group.share_of_bytes)


def cluster(senders: dict[int, dict[str, float]]) -> list[list[int]]:
    """Numbers of bursts, grouped: each distinct set of senders, the commonest first, joins the first group whose
    founding set it is like, or founds one."""
    sets: dict[frozenset[str], list[int]] = {}
    for number, amounts in senders.items():
        sets.setdefault(frozenset(amounts), []).append(number)
    founders: list[tuple[frozenset[str], list[int]]] = []
    for members, numbers in sorted(sets.items(), key=lambda item: (-len(item[1]), min(item[1]))):
        for founder, joined in founders:
            if len(founder & members) >= ALIKE * len(founder | members):
                joined.extend(numbers)
                break
        else:
            founders.append((members, list(numbers)))
    return [sorted(numbers) for _, numbers in founders]


def summarize(
    con: duckdb.DuckDBPyConnection,
    numbers: list[int],
    senders: dict[int, dict[str, float]],
    bursts: dict[int, dict[str, Any]],
    total: int,
    racks: dict[str, str],
) -> Group:
    """What the bursts of a group have in common."""
    seen: Counter[str] = Counter()
    sent: Counter[str] = Counter()
    for number in numbers:
        seen.update(senders[number].keys())
        sent.update(senders[number])
    members = sorted((source for source, count in seen.items() if count >= CORE * len(numbers)), key=address_order)
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
        trigger=trigger(con, rows),
    )


def address_order(source: str) -> tuple[int, int, str]:
    """Sorts addresses by number, other names after them."""
    try:
        address = ipaddress.ip_address(source)
    except ValueError:
        return 99, 0, source
    return address.version, int(address), ""


def common_name(members: list[str]) -> str:
    """The longest prefix that holds all members, for a single one its name."""
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


def trigger(con: duckdb.DuckDBPyConnection, rows: list[dict[str, Any]]) -> Trigger | None:
    """The host's own fan-out before the bursts, where its outgoing direction was recorded too.

    The store keeps flows a sender and source bin, not destinations: each request to another host is another flow, so
    the flows of a bin count those asked. Median over the bursts that have at least FEWEST before them.
    """
    incoming = [row for row in rows if row["direction"] == "in"]
    if not incoming:
        return None
    host, interface = incoming[0]["host"], incoming[0]["interface"]
    sent = con.execute(
        """SELECT s.first_ns, s.last_ns, s.flows FROM sources s
           WHERE s.host = $host AND s.interface = $interface AND s.direction = 'out' AND s.source <> 'other'
           ORDER BY s.first_ns""",
        {"host": host, "interface": interface},
    ).fetchnumpy()
    first, flows = np.asarray(sent["first_ns"]), np.asarray(sent["flows"]).astype(np.int64)
    if len(first) == 0:
        return None
    needed = max(FEWEST, int(np.median([row["fan_in"] for row in incoming])) // 2)
    fan_outs = first[flows >= needed]
    counts = flows[flows >= needed]
    onset = np.array([row["start_ns"] for row in incoming], dtype=np.int64) + incoming[0]["bin_ns"]
    at = np.searchsorted(fan_outs, onset, side="right") - 1
    lead = onset - fan_outs[np.maximum(at, 0)] if len(fan_outs) else np.zeros(len(onset), dtype=np.int64)
    led = (at >= 0) & (lead <= LEAD_NS + incoming[0]["bin_ns"])
    span = max(int(first[-1] - first[0]), 1)
    usual = min(1.0, len(fan_outs) * LEAD_NS / span)
    if not led.any():
        return None
    return Trigger(int(np.median(counts[at[led]])), float(np.median(lead[led])), float(led.mean()), usual)


def contention(bursts: list[dict[str, Any]]) -> Contention | None:
    """Overlap of the bursts that different hosts of one rack receive; None with fewer than two hosts."""
    incoming = [burst for burst in bursts if burst["direction"] != "out"]
    hosts = {(burst["rack"], burst["host"]) for burst in incoming}
    if len(hosts) < 2:
        return None
    edges = sorted(
        [(b["start_ns"], 1, b["burst"]) for b in incoming] + [(b["end_ns"], 0, b["burst"]) for b in incoming]
    )
    by_number = {burst["burst"]: burst for burst in incoming}
    open_now: dict[int, tuple[str, str]] = {}
    contended: set[int] = set()
    most = 1
    for _, opens, number in edges:
        burst = by_number[number]
        if not opens:
            open_now.pop(number, None)
            continue
        rivals = {other for other, owner in open_now.items() if owner[0] == burst["rack"] and owner[1] != burst["host"]}
        open_now[number] = (burst["rack"], burst["host"])
        if rivals:
            contended |= rivals | {number}
            most = max(most, len({open_now[other] for other in rivals}) + 1)
    return Contention(len(hosts), len(contended) / len(incoming), most)
