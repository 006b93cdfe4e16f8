"""Reads a switch port's counters from the store, and a recorded port's bins in the same windows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from ...quality import SAMPLE_NEAR, Quality
from .conservation import BinContent, SwitchWindows
from .counter_windows import apart
from .evidence.switch import CountedWindows, PortQueue, SwitchCounts
from .port import Port
from .read import Name, names_port, period

if TYPE_CHECKING:
    import duckdb

# Bytes of each window, counted once even if several collections have it; the finest if there are several widths. The
# bins of a switch port that sends running totals are merged into windows of TOGETHER bins. If samples are missing
# inside of one, the gap has the bytes. Windows in which such a gap begins or ends are left out. A port is counted like
# a queue with one counter.
TOGETHER = 100
OF_BINS = {"in_bytes": "in", "out_bytes": "out"}  # columns of `ports` that bins have, by their direction
_COUNTED = """
    WITH counting AS (
        SELECT device, port, '' AS queue, batch, window_start_ns, ts_ns, {column} AS transmit_bytes,
               CAST(NULL AS BIGINT) AS max_bytes, CAST(NULL AS BIGINT) AS avg_bytes,
               CAST(NULL AS BIGINT) AS dropped_packets, CAST(NULL AS BIGINT) AS ecn_marked_packets, quality
        FROM ports WHERE {column} IS NOT NULL
    )
    SELECT device, port, window_start_ns, ts_ns, max(transmit_bytes) AS bytes, bit_or(quality) AS quality, 0 AS edge_ns
    FROM counting ANTI JOIN counted_elsewhere('counting', $since, $until)
        USING (device, port, batch, window_start_ns, ts_ns)
    WHERE ts_ns > window_start_ns AND believable(quality) AND window_within(window_start_ns, ts_ns, $since, $until)
    GROUP BY ALL
"""
_SAMPLED = """
WITH lanes AS (
    SELECT DISTINCT recording_id, host, interface, $together * bin_ns AS width FROM recordings
    WHERE backend = 'otlp' AND direction = $direction
), missed AS (
    SELECT l.*, start_ns, bytes, bin_start(start_ns, width) AS first_ns, bin_start(end_ns - 1, width) AS last_ns,
           first_ns = last_ns AND reason = 'not sampled' AND bytes > 0 AS inside
    FROM gaps JOIN (SELECT recording_id, width FROM lanes) l USING (recording_id)
), sampled AS (
    SELECT recording_id, ts_ns, bytes, quality, false AS whole, false AS cut FROM bins JOIN lanes USING (recording_id)
    UNION ALL SELECT recording_id, start_ns, bytes, 0, true, false FROM missed WHERE inside
    UNION ALL SELECT recording_id, unnest(range(first_ns, last_ns + 1, width)), 0, 0, false, true
              FROM missed WHERE NOT inside
)
SELECT host, interface, bin_start(ts_ns, width) AS begin_ns, begin_ns + width, sum(bytes), bit_or(quality),
       $late * width / $together
FROM sampled JOIN lanes USING (recording_id)
WHERE ts_ns >= $since AND ts_ns < $until GROUP BY host, interface, width, begin_ns
HAVING NOT bool_or(cut) AND (bit_or(quality) & $gap = 0 OR bool_or(whole))
"""
_PORTS = """
SELECT * FROM ({counted})
QUALIFY ts_ns - window_start_ns <= 2 * quantile_disc(ts_ns - window_start_ns, 0.1) OVER (PARTITION BY device, port)
ORDER BY device, port, ts_ns
"""
_QUEUES = """
WITH counting AS MATERIALIZED (
    FROM believable_windows('queues', $since, $until) WHERE {column} IS NOT NULL AND ts_ns > window_start_ns
      AND device = $device AND port = $port
)
SELECT device, port || ' queue ' || queue AS port, window_start_ns, ts_ns, {column} AS bytes, quality, 0 AS edge_ns
FROM windows_of_port('counting') WHERE is_of_port
ORDER BY queue, ts_ns
"""
_CONTENT = """
WITH windows AS (SELECT unnest($begin) AS begin_ns, unnest($end) AS end_ns), inside AS (
    SELECT begin_ns, end_ns, ts_ns, bytes, wire_bytes, packets, quality
    FROM bins ASOF JOIN windows ON ts_ns >= begin_ns
    WHERE host = $host AND interface = $interface AND direction = $direction AND ts_ns >= $since AND ts_ns < $until
)
SELECT begin_ns, sum(bytes) AS bytes, sum(wire_bytes) AS wire_bytes, sum(packets) AS packets, bit_or(quality) AS quality
FROM inside WHERE ts_ns < end_ns GROUP BY begin_ns ORDER BY begin_ns
"""


def port_windows(con: duckdb.DuckDBPyConnection, port: Port, origin: int) -> dict[Name, SwitchWindows]:
    """Returns the counters of every switch port in the recorded time, for the direction that the recorded host saw."""
    counts = port_counts(con, port, "in_bytes" if port.direction == "out" else "out_bytes", origin)
    return {name: apart(windows) for name, windows in counts.items()}


def port_counts(con: duckdb.DuckDBPyConnection, port: Port, column: str, origin: int) -> dict[Name, SwitchWindows]:
    """Returns the counts of every switch port in a column of `ports`, in the recorded time."""
    counted = _COUNTED.format(column=column)
    asked: dict[str, object] = {**period(port, origin)}
    if column in OF_BINS and _are_sampled(con):
        counted += f"UNION ALL ({_SAMPLED})"
        asked |= {
            "direction": OF_BINS[column], "together": TOGETHER, "gap": int(Quality.GAP), "late": SAMPLE_NEAR
        }  # fmt: skip
    return by_port(con, _PORTS.format(counted=counted), asked, origin)


def _are_sampled(con: duckdb.DuckDBPyConnection) -> bool:
    """Returns whether there are bins of switch ports."""
    return con.execute("SELECT 1 FROM recordings WHERE backend = 'otlp' LIMIT 1").fetchone() is not None


def queue_windows(
    con: duckdb.DuckDBPyConnection, port: Port, name: Name, origin: int, column: str = "transmit_bytes"
) -> list[SwitchWindows]:
    """Returns the counts of each queue at the output of a switch port in a column of `queues`, if it reported any.
    Where a queue is a part of another one that reported it, too, it is left out."""
    asked = {**period(port, origin), "device": name[0], "port": name[1]}
    return list(by_port(con, _QUEUES.format(column=column), asked, origin).values())


def counted_packets(
    con: duckdb.DuckDBPyConnection, port: Port, linked: Name | None, queue: PortQueue | None, origin: int
) -> SwitchCounts | None:
    """Returns the packets that the switch port before a recorded one dropped and marked: the drops of the port if it
    counts them, otherwise those of its queues. None if no switch port is known, or if the port's queue is in its own
    host. linked: the switch port that it is linked to; queue: the windows that are used as the port's."""
    if port.direction == "out":
        return None
    discards = port_counts(con, port, "out_discards", origin)
    name = port_of(port, linked, sorted(discards)) or (queue.place if queue is not None else None)
    if name is None:
        return None
    drops = [discards[name]] if name in discards else queue_windows(con, port, name, origin, "dropped_packets")
    marks = queue_windows(con, port, name, origin, "ecn_marked_packets")
    return SwitchCounts(*(of_windows(" ".join(name), counts) for counts in (drops, marks)))


def of_windows(name: str, counts: list[SwitchWindows]) -> CountedWindows | None:
    """Returns the packets of windows without a counter reset. None if nothing was counted."""
    if not counts:
        return None
    start, end, packets, was_reset = (
        np.concatenate([getattr(one, side) for one in counts]) for side in ("start", "end", "bytes", "was_reset")
    )
    return CountedWindows(name, start[~was_reset], end[~was_reset], packets[~was_reset]).joined()


def by_port(
    con: duckdb.DuckDBPyConnection, query: str, asked: Mapping[str, object], origin: int
) -> dict[Name, SwitchWindows]:
    """Returns the rows of a query as windows of each port."""
    rows = con.execute(query, dict(asked)).fetchnumpy()
    names = list(zip(rows["device"].tolist(), rows["port"].tolist(), strict=True))
    places: dict[Name, list[int]] = {}
    for k, name in enumerate(names):
        places.setdefault(name, []).append(k)
    start, end = (
        (np.asarray(rows[key]).astype(np.int64) - origin).astype(np.float64) for key in ("window_start_ns", "ts_ns")
    )
    bytes_, edge_ns = (np.asarray(rows[key]).astype(np.float64) for key in ("bytes", "edge_ns"))
    was_reset = np.asarray(rows["quality"]).astype(np.int64) & int(Quality.RESET) != 0
    return {
        name: SwitchWindows(" ".join(name), start[at], end[at], bytes_[at], was_reset[at], float(edge_ns[at].max()))
        for name, at in places.items()
    }


def port_of(port: Port, linked: Name | None, names: list[Name]) -> Name | None:
    """Returns the switch port that a recorded port is linked to, or that is named after it."""
    if port.switch:
        return port.switch[:2]
    return linked or next((name for name in names if names_port(name[1], port)), None)


def content(con: duckdb.DuckDBPyConnection, port: Port, windows: SwitchWindows, origin: int) -> BinContent:
    """Returns the content of the port's bins in each window."""
    begin = windows.start.astype(np.int64) + origin
    rows = con.execute(_CONTENT, {
        "begin": begin.tolist(), "end": (windows.end.astype(np.int64) + origin).tolist(), **period(port, origin),
        **dict(zip(("host", "interface", "direction"), port.lane, strict=True)),
    }).fetchnumpy()  # fmt: skip
    place = np.searchsorted(begin, np.asarray(rows["begin_ns"]))
    found = np.zeros((3, len(begin)))
    for k, key in enumerate(("bytes", "wire_bytes", "packets")):
        found[k, place] = np.asarray(rows[key]).astype(np.float64)
    lossy = np.zeros(len(begin), dtype=bool)
    lossy[place] = np.asarray(rows["quality"]).astype(np.int64) & int(Quality.DROPS) != 0
    return BinContent(found[0], found[1], found[2], lossy)


def is_filtered(con: duckdb.DuckDBPyConnection, port: Port) -> bool:
    """Returns whether a recording of the port left packets out by a filter."""
    [(filtered,)] = con.execute(
        "SELECT coalesce(bool_or(filter <> ''), false) FROM recordings "
        "WHERE host = $host AND interface = $interface AND direction = $direction",
        dict(zip(("host", "interface", "direction"), port.lane, strict=True)),
    ).fetchall()
    return bool(filtered)
