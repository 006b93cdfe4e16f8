"""Stores of several days to compact, and queries on them."""

from __future__ import annotations

import math
import random
import zlib
from typing import Any
from unittest import mock

import duckdb
from hypothesis import strategies as st
from storelib import rows

from mburst.analysis.bursts.find import BurstDefinition, find_bursts
from mburst.sql import StoreFolder
from mburst.sql.compaction import files
from mburst.sql.compaction.compact import Compacted, compact
from mburst.sql.compaction.rules import SETTLED_NS, KeepRules
from mburst.sql.format import filenames
from mburst.sql.format.filenames import Segment
from mburst.units import NS_PER_DAY

MS, S = 10**6, 10**9
DAY = 20_000 * NS_PER_DAY  # the first of the stores' days
NOW = DAY + 3 * NS_PER_DAY + SETTLED_NS  # the first two days have been over for more than a day
LINK = 10**9

Rows = tuple[list[dict[str, Any]], list[dict[str, Any]]]  # of bins and of senders


def recorded(
    store: StoreFolder,
    name: str,
    bins: list[dict[str, Any]],
    senders: list[dict[str, Any]],
    host: str | None = None,
    **more: Any,
) -> None:
    """Adds a recording of an interface; its bins and senders are sealed in several segments of the first day."""
    writer = f"{zlib.crc32(name.encode()):012x}"
    lane = {"recording_id": name, "host": host or f"host-{name}", "rack": "r1", "interface": "eth0"}
    of = {"bin_ns": MS, "source_bin_ns": MS, "link_bps": LINK, "boot_id": "boot", "writer_id": writer, **more}
    of |= {"capture_id": f"capture-{name}"}
    with mock.patch.object(filenames, "new_segment", lambda host, writer, number: Segment(host, DAY, writer, number)):
        for table, given in (("bins", bins), ("sources", senders)):
            with store.writer(table, lane["host"], "r1", writer) as to:
                for start in range(0, len(given), max(1, len(given) // 3)):
                    to.append(rows(table, *({**lane, **row} for row in given[start : start + max(1, len(given) // 3)])))
                    to.roll()
    counted = {name: sum(row[name] for row in bins) for name in ("packets", "bytes", "wire_bytes")}
    times = [row["ts_ns"] for row in bins]
    with store.writer("recordings", lane["host"], "r1", writer) as to:
        span = {"start_ns": min(times, default=None), "end_ns": max(times, default=None)}
        to.append(rows("recordings", {**lane, **of, **counted, **span, "written_ns": DAY + NS_PER_DAY}))


def incast(at_ns: int, ms: int = 5, senders: int = 10) -> Rows:
    """Returns full bins of 1 ms, and their senders."""
    bins = [{"ts_ns": at_ns + i * MS, "bytes": 120_000, "wire_bytes": 125_000, "packets": 80} for i in range(ms)]
    sources = [
        {
            "ts_ns": row["ts_ns"],
            "source": f"10.0.0.{sender}",
            "bytes": 120_000 // senders,
            "first_ns": row["ts_ns"] + sender,
            "last_ns": row["ts_ns"] + MS - 1,
        }
        for row in bins
        for sender in range(senders)
    ]
    return bins, sources


def quiet(at_ns: int, bins: int, every_ms: int = 10) -> Rows:
    """Returns bins of 1 ms at 1 % of the link speed, and one sender."""
    times = [at_ns + i * every_ms * MS for i in range(bins)]
    return (
        [{"ts_ns": ts, "bytes": 1000, "wire_bytes": 1250, "packets": 1} for ts in times],
        [{"ts_ns": ts, "source": "10.1.0.1", "bytes": 1000, "first_ns": ts, "last_ns": ts} for ts in times],
    )


def together(*of: Rows) -> Rows:
    """Returns the bins and senders of several traffic patterns, in order of time; no two may have the same time."""
    bins, senders = (sorted((row for one in of for row in one[k]), key=lambda row: row["ts_ns"]) for k in (0, 1))
    return bins, senders


def days_of_bursts(store: StoreFolder, hosts: int = 2) -> None:
    """Adds three days of HOSTS: an incast and quiet traffic on each."""
    for host in range(hosts):
        days = [DAY + day * NS_PER_DAY + 12 * 3600 * S for day in range(3)]
        pieces = [
            piece
            for noon in days
            for piece in (quiet(noon - 20 * S, 1000), incast(noon + host * S), quiet(noon + 20 * S, 1000))
        ]
        recorded(store, f"r{host}", *together(*pieces))


def bursts(store: StoreFolder, *definitions: BurstDefinition) -> list[list[dict[str, Any]]]:
    """Returns the bursts of each definition, or of the default."""
    with store.connect() as con:
        return _bursts(con, *definitions)


def counted(store: StoreFolder) -> list[tuple[Any, ...]]:
    """Returns the counts, by recording."""
    with store.connect() as con:
        return _counted(con)


def answers(
    store: StoreFolder, *definitions: BurstDefinition
) -> tuple[list[list[dict[str, Any]]], list[tuple[Any, ...]]]:
    """Returns `bursts` and `counted`, by one connection: opening a store takes longer than each."""
    with store.connect() as con:
        return _bursts(con, *definitions), _counted(con)


def _bursts(con: duckdb.DuckDBPyConnection, *definitions: BurstDefinition) -> list[list[dict[str, Any]]]:
    return [find_bursts(con, definition) for definition in definitions or [BurstDefinition()]]


def _counted(con: duckdb.DuckDBPyConnection) -> list[tuple[Any, ...]]:
    return con.execute(
        "SELECT recording_id, sum(packets), sum(bytes), sum(wire_bytes), sum(bins), max(peak_bytes) "
        "FROM counts GROUP BY ALL ORDER BY ALL"
    ).fetchall()


def compacted(store: StoreFolder, now_ns: int = NOW, **rules: Any) -> Compacted:
    """Returns the result of COMPACT; fails if there was trouble."""
    found = compact(store, KeepRules(**rules), now_ns=now_ns)
    assert not found.troubles and not found.waiting
    return found


def hours_merged(store: StoreFolder, now_ns: int = DAY + NS_PER_DAY + 3700 * S) -> list[int]:
    """Compacts STORE while its first day is not over, with files that are old enough to be merged. Returns the merged
    hours."""
    with mock.patch.object(files, "FOLLOWED_NS", 0):
        found = compacted(store, now_ns).days
    assert all(day.detail == 1 and day.name.is_hour for day in found)
    return [day.name.hour for day in found]


# --- random stores and their answers ---------------------------------------------------------------------------------

# Times of traffic: at noon, across two hours, and across two days.
PLACES = (
    DAY + NS_PER_DAY // 2,
    DAY + NS_PER_DAY // 2 - 40 * MS,
    DAY + NS_PER_DAY - 700 * MS,
    DAY + NS_PER_DAY - 3 * MS,
)


# Pieces of traffic: place, ms after it, number of bins, share of full ones, and a seed for the rest.
Piece = tuple[int, int, int, float, int]
FULL = (0.25, 0.26, 0.3, 0.5, 0.9, 1.0)
NOT_FULL = (0.0, 0.01, 0.1, 0.2, 0.24, 0.2499)


def pieces(places: tuple[int, ...]) -> st.SearchStrategy[list[Piece]]:
    """Returns a strategy for traffic in PLACES."""
    piece = st.tuples(
        st.sampled_from(places),
        st.integers(0, 1400),
        st.integers(1, 150),
        st.sampled_from([0.01, 0.05, 0.3, 1.0]),
        st.integers(0, 2**32),
    )
    return st.lists(piece, min_size=1, max_size=12)


@st.composite
def stores(draw: st.DrawFn, places: tuple[int, ...] = PLACES) -> dict[str, Any]:
    """Returns the width of bins, and the traffic of some recordings in PLACES."""
    bin_ns = draw(st.sampled_from([MS // 2, MS, 2 * MS, 7 * MS, 10 * MS, 25 * MS, 100 * MS]))
    return {
        "bin_ns": bin_ns,
        "source_bin_ns": bin_ns * draw(st.sampled_from([1, 2])),
        "recordings": draw(st.lists(pieces(places), min_size=3, max_size=6)),
        "senders": draw(st.integers(1, 4)),
    }


def traffic(case: dict[str, Any], of: list[Piece]) -> Rows:
    """Returns rows of bins and of senders."""
    width, wide = case["bin_ns"], case["source_bin_ns"]
    filled: dict[int, int] = {}
    for place, at, count, full, seed in of:
        first, chosen = (place + at * MS) // width * width, random.Random(seed)
        for index in range(count):
            share = chosen.choice(FULL if chosen.random() < full else NOT_FULL)
            filled[first + index * width] = math.ceil(share * width * LINK / 8 / S)
    bins = [
        {
            "ts_ns": ts,
            "bytes": size - 10,
            "wire_bytes": size,
            "packets": 1 + size // 1500,
            "ce_packets": ts // width % 3,
            "quality": 32 * (size % 7 == 0) + 1,
            "retransmits": (None, 0, 3)[size % 3],
            "pause_quanta": (None, 0)[size % 2],
            "pause_classes": None if size % 5 else 1 << ts // width % 8,
        }
        for ts, size in sorted(filled.items())
        if size
    ]
    sent: dict[tuple[int, int], int] = {}
    for row in bins:
        start = row["ts_ns"] // wide * wide
        for sender in range(case["senders"]):
            if (start // wide + sender) % 3:
                sent[start, sender] = sent.get((start, sender), 0) + row["bytes"] // (sender + 1)
    senders = [
        {
            "ts_ns": start,
            "source": f"10.0.0.{sender}",
            "bytes": size,
            "first_ns": start + sender,
            "last_ns": start + wide - 1 - sender,
        }
        for (start, sender), size in sorted(sent.items())
    ]
    return bins, senders


def same(before: Any, after: Any) -> bool:
    """Returns whether both are equal, except for the order in which shares were summed up."""
    if isinstance(before, float):
        return isinstance(after, float) and math.isclose(before, after, rel_tol=1e-9)
    if isinstance(before, dict):
        return before.keys() == after.keys() and all(same(value, after[key]) for key, value in before.items())
    if isinstance(before, list):
        return len(before) == len(after) and all(map(same, before, after))
    return bool(before == after)


def rows_of(store: StoreFolder, table: str) -> int:
    with store.connect() as con:
        [(count,)] = con.execute(f"SELECT count(*) FROM {table}").fetchall()
        return int(count)
