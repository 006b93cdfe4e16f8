"""Queries on the table `bins`, in addition to sql/queries and the view `recorded`. The variables `ids` (recording_id),
`since` and `until` (of ts_ns) select a slice of it."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from ...quality import Quality
from ...units import NS_PER_S
from .rows import dicts, first

if TYPE_CHECKING:
    import duckdb

GROUPS = 2_000_000  # rows of an aggregate in memory

_SLICE = "FROM bins WHERE recording_id IN (SELECT unnest($ids)) AND ts_ns >= $since AND ts_ns < $until"
_CELLS = """
SELECT ts_ns // $width AS cell, max(wire_bytes) AS largest, CAST(sum(wire_bytes) AS BIGINT) AS total, count(*) AS bins
FROM ({rows}) GROUP BY 1 ORDER BY 1
"""
_BINS_OF_CELLS = """
SELECT ts_ns // $bin AS cell, max(wire_bytes) AS largest, CAST(sum(wire_bytes) AS BIGINT) AS total, count(*) AS bins
FROM ({rows}) WHERE ts_ns // $width IN (SELECT unnest($cells)) GROUP BY 1 ORDER BY 1
"""
# A window at least as full as that of the fullest bin has a bin with its even share: only such windows are summed.
_FULLEST = """
WITH given AS NOT MATERIALIZED ({rows}),
near AS (SELECT arg_max(ts_ns, wire_bytes) // $width AS cell FROM given),
least AS (SELECT sum(wire_bytes) AS bytes FROM given WHERE ts_ns // $width = (SELECT cell FROM near)),
windows AS (
    SELECT DISTINCT ts_ns // $width AS cell FROM given, least WHERE wire_bytes * ($width // $bin) >= least.bytes)
SELECT cell * $width AS ts_ns, CAST(sum(wire_bytes) AS BIGINT) AS wire_bytes
FROM given JOIN windows ON ts_ns // $width = cell GROUP BY cell ORDER BY wire_bytes DESC, cell LIMIT 1
"""
_TOTALS = """
SELECT recording_id, min(ts_ns) AS first, max(ts_ns) AS last, count(*) AS bins, CAST(sum(packets) AS BIGINT) AS packets,
    CAST(sum(bytes) AS BIGINT) AS bytes, CAST(sum(wire_bytes) AS BIGINT) AS wire_bytes,
    arg_max(ts_ns, first_largest(wire_bytes, ts_ns)) AS busiest_ts, max(wire_bytes) AS busiest,
    CAST(max(ceil(wire_bytes / packets)) FILTER (packets > 0 AND quality & $merged = 0) AS BIGINT) AS largest_frame
FROM bins WHERE recording_id IN (SELECT unnest($ids)) AND ts_ns >= $since AND ts_ns < $until GROUP BY recording_id
"""
_QUALITIES = """
SELECT recording_id, bit, name, meaning, count(*) AS bins, CAST(sum(packets) AS BIGINT) AS packets
FROM (SELECT recording_id, quality, packets FROM bins WHERE recording_id IN (SELECT unnest($ids)) AND ts_ns >= $since
    AND ts_ns < $until)
JOIN quality q ON quality & q.bit <> 0 GROUP BY ALL ORDER BY bit
"""
_MARKED = """
SELECT DISTINCT ts_ns // $width AS cell FROM bins
WHERE recording_id IN (SELECT unnest($ids)) AND ts_ns >= $since AND ts_ns < $until AND quality & $bit <> 0 ORDER BY 1
"""
_FLOW_CONTROLS = """
SELECT sums.*, pause_ns(pause_quanta, link_bps) AS asked_ns
FROM (FROM flow_controls('counts', $since, $until) WHERE list_contains($ids, recording_id)) AS sums
JOIN (SELECT unnest($ids) AS recording_id, CAST(unnest($links) AS BIGINT) AS link_bps) USING (recording_id)
"""
_WITHOUT_PAUSES = """
SELECT DISTINCT host, interface, direction FROM lanes
WHERE recording_id IN (SELECT recording_id FROM bins WHERE pause_frames IS NULL) ORDER BY ALL
"""
_MOSTLY_COARSE = """
WITH wanted AS (
    SELECT recording_id, host, interface, direction, coalesce($bin_ns, bin_ns) AS width_ns
    FROM recordings
    WHERE width_ns < $fine_ns AND (quality & $coarse <> 0 OR ended = '')
      AND ($hosts IS NULL OR list_contains($hosts, host)) AND rack = coalesce($rack, rack)
      AND interface = coalesce($interface, interface) AND direction = coalesce($direction, direction)
      AND recording_id = coalesce($recording, recording_id)
)
SELECT wanted.host, wanted.interface, wanted.direction, width_ns
FROM bins JOIN wanted USING (recording_id)
WHERE ts_ns >= coalesce($since_ns, ts_ns) AND ts_ns <= coalesce($until_ns - 1, ts_ns)
GROUP BY ALL
HAVING 2 * count(*) FILTER (bins.quality & $coarse <> 0) > count(*)
ORDER BY ALL"""
# Bins of several widths are compared in the widest of their lane. Cells are groups only in seconds in which bins of the
# same time can lie: otherwise each bin of a lane would be a group.
_SECONDS = """
WITH runs AS (
    SELECT unnest($ids) AS recording_id, CAST(unnest(range(len($ids))) AS INTEGER) AS run,
           CAST(unnest($lanes) AS INTEGER) AS lane, CAST(unnest($widths) AS BIGINT) AS width_ns
), shared AS (
    SELECT lane, unnest(range(first, until)) AS second, true AS is_shared
    FROM (SELECT CAST(unnest($shared_lanes) AS INTEGER) AS lane, CAST(unnest($firsts) AS BIGINT) AS first,
                 CAST(unnest($untils) AS BIGINT) AS until)
), parts AS (
    SELECT lane, run, second, CASE WHEN is_shared THEN clock_epoch END AS epoch,
           CASE WHEN is_shared THEN cell END AS cell, CAST(sum(wire_bytes) AS BIGINT) AS wire_bytes
    FROM (SELECT lane, run, clock_epoch, bin_start(ts_ns, width_ns) AS cell, bin_number(cell, 1000000000) AS second,
                 wire_bytes
          FROM counts JOIN runs USING (recording_id) WHERE ts_ns >= $since AND ts_ns < $until)
    LEFT JOIN shared USING (lane, second) WHERE second >= $first AND second < $end
    GROUP BY ALL
), fullest AS (
    SELECT lane, second, max(wire_bytes) AS wire_bytes FROM parts
    GROUP BY lane, second, cell, CASE WHEN cell IS NULL THEN run END
)
SELECT lane, max(wire_bytes)
FROM (SELECT lane, CAST(sum(wire_bytes) AS BIGINT) AS wire_bytes FROM fullest GROUP BY lane, second) GROUP BY lane
"""
# A slice has the bins of at most $groups, and of one second more.
_SLICES = """
SELECT min(second)
FROM (SELECT second, sum(bins) OVER (ORDER BY second) // $groups AS slice
      FROM (SELECT bin_number(ts_ns, 1000000000) AS second, count(*) AS bins FROM counts
            WHERE recording_id IN (SELECT unnest($ids)) AND ts_ns >= $since AND ts_ns < $until GROUP BY second))
GROUP BY slice ORDER BY 1
"""
_RACK = """
CREATE TEMP TABLE rack_totals AS
SELECT number, max(wire_bytes) AS busiest_second, CAST(sum(wire_bytes) AS BIGINT) AS wire_bytes,
       max(largest) AS largest, min(first_ns) AS first_ns, max(last_ns) AS last_ns, min(second) AS first_second,
       arg_min(wire_bytes, second) AS of_first_second, max(second) AS last_second,
       arg_max(wire_bytes, second) AS of_last_second,
       CAST(sum(packets) AS BIGINT) AS packets,
       bit_or(quality) AS quality, CAST(sum(losing_bins) AS BIGINT) AS losing_bins
FROM (
    SELECT number, ts_ns // 1000000000 AS second, CAST(sum(wire_bytes) AS BIGINT) AS wire_bytes,
           max(peak_bytes) AS largest, min(first_ns) AS first_ns, max(last_ns) AS last_ns,
           CAST(sum(packets) AS BIGINT) AS packets, bit_or(quality) AS quality, sum(losing_bins) AS losing_bins
    FROM counts JOIN (SELECT recording_id, number FROM rack_recordings) USING (recording_id)
    WHERE ts_ns >= $since AND ts_ns < $until GROUP BY number, second)
GROUP BY number
"""


def cells(con: duckdb.DuckDBPyConnection, where: dict[str, Any], repeated: bool, width_ns: int) -> dict[str, Any]:
    """Returns cells of WIDTH_NS as arrays by name: `cell` (its number), `largest` bin and `total` in wire bytes,
    `bins`. REPEATED: some recordings or clock epochs cover the same time, so that only the fullest of simultaneous bins
    counts."""
    return con.execute(_CELLS.format(rows=_rows(repeated)), {**where, "width": width_ns}).fetchnumpy()


def bins_of_cells(
    con: duckdb.DuckDBPyConnection,
    where: dict[str, Any],
    repeated: bool,
    bin_ns: int,
    width_ns: int,
    numbers: list[int],
) -> dict[str, Any]:
    """Returns the same arrays for the stored bins in some cells of WIDTH_NS."""
    return con.execute(
        _BINS_OF_CELLS.format(rows=_rows(repeated)), {**where, "bin": bin_ns, "width": width_ns, "cells": numbers}
    ).fetchnumpy()


def fullest(
    con: duckdb.DuckDBPyConnection, where: dict[str, Any], repeated: bool, bin_ns: int, width_ns: int
) -> tuple[Any, ...] | None:
    """Returns the start of the fullest window of WIDTH_NS, a multiple of BIN_NS, and its wire bytes; None without a
    bin."""
    query = _FULLEST.format(rows=_rows(repeated))
    return first(con, query, {**where, "bin": bin_ns, "width": width_ns})


def _rows(repeated: bool) -> str:
    if not repeated:
        return f"SELECT ts_ns, wire_bytes {_SLICE}"
    return f"SELECT ts_ns, max(wire_bytes) AS wire_bytes {_SLICE} GROUP BY ts_ns"


def fullest_seconds(
    con: duckdb.DuckDBPyConnection,
    lanes: list[tuple[str, int, int]],
    shared: list[tuple[int, int, int]],
    since_ns: int,
    until_ns: int,
) -> dict[int, int]:
    """Returns the wire bytes of the fullest second of the clock by lane, if recordings or clock epochs of a lane cover
    the same time: only the fullest of simultaneous bins counts. LANES: recording, number of its lane, widest bins of
    that lane. SHARED: number of a lane, first and end of consecutive seconds of the clock in which the cells lie that
    have time more than once; those of a lane are disjoint. The time is read in slices of about GROUPS bins."""
    where = {name: [row[i] for row in lanes] for i, name in enumerate(("ids", "lanes", "widths"))}
    widest = max(width for _, _, width in lanes)
    of_all = {"ids": where["ids"], "since": since_ns, "until": until_ns, "groups": GROUPS}
    begins = [second for (second,) in con.execute(_SLICES, of_all).fetchall()]
    edges = [(since_ns - widest) // NS_PER_S, *begins[1:], until_ns // NS_PER_S + 1]
    for i, name in enumerate(("shared_lanes", "firsts", "untils")):
        where[name] = [times[i] for times in shared]
    found: dict[int, int] = {}
    for at, end in pairwise(edges):
        since, until = max(since_ns, at * NS_PER_S), min(until_ns, end * NS_PER_S + widest)
        slice_of = {"since": since, "until": until, "first": at, "end": end}
        for lane, sent in con.execute(_SECONDS, {**where, **slice_of}).fetchall():
            found[lane] = max(sent, found.get(lane, 0))
    return found


def count_cells(con: duckdb.DuckDBPyConnection, where: dict[str, Any], widths_ns: list[int]) -> tuple[int, ...]:
    """Returns the approximate number of cells of each width that have a bin."""
    sketches = ", ".join(f"approx_count_distinct(ts_ns // {width})" for width in widths_ns)
    [counts] = con.execute(f"SELECT {sketches} {_SLICE}", where).fetchall()
    return tuple(counts)


def totals(con: duckdb.DuckDBPyConnection, where: dict[str, Any]) -> list[dict[str, Any]]:
    """Returns, for each recording that has bins, the first, the last and the busiest bin, their number and sums.
    `largest_frame`: lower bound for the wire bytes of its largest frame, from bins without merged frames (exact if a
    frame is alone in its bin), None if no bin gives one."""
    return dicts(con, _TOTALS, {**where, "merged": int(Quality.GRO)})


def qualities(con: duckdb.DuckDBPyConnection, where: dict[str, Any]) -> list[dict[str, Any]]:
    """Returns, for each recording and bit of quality, the bit, and the bins and packets that have it."""
    return dicts(con, _QUALITIES, where)


def flow_controls(
    con: duckdb.DuckDBPyConnection, links: Mapping[str, int | None], since_ns: int, until_ns: int
) -> list[dict[str, Any]]:
    """Returns the macro flow_controls of the recordings in LINKS, with the requested times at these speeds."""
    where = {"ids": list(links), "links": list(links.values()), "since": since_ns, "until": until_ns}
    return dicts(con, _FLOW_CONTROLS, where) if links else []


def lanes_without_pauses(con: duckdb.DuckDBPyConnection) -> list[tuple[str, str, str]]:
    """Returns (host, interface, direction) of the recordings examined by detect_bursts() that have bins in which pause
    frames were not counted."""
    return con.execute(_WITHOUT_PAUSES).fetchall()


def marked_cells(con: duckdb.DuckDBPyConnection, where: dict[str, Any], width_ns: int, bit: int) -> list[int]:
    """Returns the numbers of the cells of WIDTH_NS that have bins with a quality BIT."""
    rows = con.execute(_MARKED, {"width": width_ns, "bit": int(bit), **where}).fetchnumpy()
    found: list[int] = np.asarray(rows["cell"]).astype(np.int64).tolist()
    return found


def mostly_coarse(con: duckdb.DuckDBPyConnection, settings: dict[str, Any]) -> tuple[Any, ...] | None:
    """Returns (host, interface, direction, width) of the first recording that has bins below $fine_ns in use, if most
    of these have stamps of $coarse."""
    return first(con, _MOSTLY_COARSE, settings)


def sum_rack(con: duckdb.DuckDBPyConnection, since_ns: int, until_ns: int) -> None:
    """Create the table rack_totals: for each of rack_recordings, by number, the sums of its bins of that time."""
    con.execute(_RACK, {"since": since_ns, "until": until_ns})
