"""What the meter reads: the columns that it follows of each table, and the SQL that counts their new rows.

Parameters: $since, Unix ns, from which rows count. The queries read the tables of a store, or the new rows of these
under the same names, beside the tables `known`, `carried`, `measures`, `counted` and `new_windows` that the meter
registers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...analysis.bursts.follower import BIN_COLUMNS, SENDER_COLUMNS
from ...analysis.read.columns import joined
from ...quality import Quality
from .counts import STAMPS
from .since import MOST_VALUES

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

# Events of a gNMI target, and whether it is up after them.
UP_AFTER = {"connect": True, "sync": True, "disconnect": False, "refused": False}

# The columns that are read of each table, and the column of its time. Recordings come last: a recording's row is
# written before its bins.
FOLLOWED = {
    "bins": (BIN_COLUMNS, "ts_ns"),
    "sources": (SENDER_COLUMNS, "ts_ns"),
    "probes": (
        (
            "batch",
            "src",
            "dst",
            "protocol",
            "app_send_ns",
            "tx_ns",
            "remote_rx_ns",
            "remote_tx_ns",
            "rx_ns",
            "app_recv_ns",
            "rtt_ns",
            "lost",
        ),
        "tx_ns",
    ),
    "queues": (
        (
            "batch",
            "device",
            "port",
            "queue",
            "window_start_ns",
            "ts_ns",
            "max_bytes",
            "avg_bytes",
            "transmit_bytes",
            "dropped_packets",
            "ecn_marked_packets",
            "semantics",
            "quality",
        ),
        "ts_ns",
    ),
    "gnmi_events": (("device", "subscription", "ts_ns", "event"), "ts_ns"),
    "clock": (("host", "interface", "ts_ns", "monotonic_raw_ns"), "ts_ns"),
    "recordings": (
        (
            "recording_id",
            "capture_id",
            "rack",
            "host",
            "interface",
            "direction",
            "backend",
            "link_bps",
            "bin_ns",
            "source_bin_ns",
            "dropped",
            "late",
            "start_ns",
            "end_ns",
            "begun_ns",
            "clock_epochs",
            "complete",
            "ended",
            "written_ns",
        ),
        "written_ns",
    ),
}

BINS = f"""
SELECT recording_id, max(ts_ns) AS newest_ns, CAST(sum(wire_bytes) AS BIGINT) AS wire_bytes,
       CAST(sum(packets) AS BIGINT) AS packets, count(*) FILTER (quality & {Quality.DROPS:d} <> 0) AS drops,
       {", ".join(f"count(*) FILTER (quality & {bit:d} <> 0) AS {kind}" for kind, bit in STAMPS.items())}
FROM bins WHERE ts_ns >= $since GROUP BY recording_id
"""
# Windows with at least one new bin; windows that the last look cut are complete in this one.
WINDOWS = """
WITH windows AS (
    SELECT recording_id, ts_ns, wire_bytes, true AS fresh FROM bins WHERE ts_ns >= $since
    UNION ALL SELECT recording_id, ts_ns, wire_bytes, false FROM carried
)"""
PEAKS = (
    WINDOWS
    + """
SELECT recording_id, utilization(max(filled), $width, any_value(link_bps)) FROM (
    SELECT recording_id, link_bps, sum(wire_bytes) AS filled
    FROM windows JOIN (SELECT recording_id, link_bps FROM known WHERE link_bps IS NOT NULL AND $width % bin_ns = 0)
        USING (recording_id)
    GROUP BY recording_id, link_bps, ts_ns // $width HAVING bool_or(fresh))
GROUP BY recording_id
"""
)
CARRIED = (
    WINDOWS
    + """
SELECT recording_id, ts_ns, wire_bytes
FROM windows JOIN (SELECT recording_id, max(ts_ns) // $widest * $widest AS least_ns FROM windows
                   GROUP BY recording_id) USING (recording_id)
WHERE ts_ns >= least_ns AND least_ns >= (SELECT max(ts_ns) FROM windows) - $forgotten
"""
)
PROBES = """
SELECT src, dst, protocol, sent, lost, [application, network, round_trip, reported, to_application, one_way] AS known
FROM known_measures('probes', $since, 9223372036854775807, CAST(NULL AS VARCHAR)) ORDER BY ALL
"""
LATENCIES = f"""
SELECT src, dst, protocol, arg_max(latency, tx_ns, {MOST_VALUES}) AS latencies, count(*) AS measured
FROM (SELECT src, dst, protocol, tx_ns, latency_by(measure, app_send_ns, tx_ns, remote_rx_ns, remote_tx_ns, rx_ns,
                                                   app_recv_ns, rtt_ns) AS latency
      FROM probes JOIN measures USING (src, dst, protocol) WHERE tx_ns >= $since AND NOT lost)
WHERE latency IS NOT NULL GROUP BY src, dst, protocol ORDER BY src, dst, protocol
"""
WINDOWS_REPORTED = """
SELECT batch, device, port, queue, window_start_ns, ts_ns, depth_bytes, dropped_packets, believed,
       hash(device, port, queue, semantics, window_start_ns, ts_ns, max_bytes, avg_bytes, believed) AS name
FROM reported_windows('queues', $since, 9223372036854775807)
"""
# Drops in a window count once: a window that overlaps one which an earlier look counted for another collection has the
# same packets.
DROPS = """
SELECT *, CASE WHEN believed AND NOT EXISTS (
    SELECT 1 FROM counted c WHERE c.device = w.device AND c.port = w.port AND c.queue = w.queue AND c.batch <> w.batch
        AND w.window_start_ns < c.until_ns AND w.ts_ns > c.from_ns) THEN dropped_packets END AS drops
FROM new_windows w
"""
QUEUES = f"""
SELECT device, port, queue, max(depth_bytes) FILTER (believed) AS max_bytes,
       count(*) FILTER (NOT believed) AS impossible, total(drops) AS dropped
FROM ({DROPS}) GROUP BY device, port, queue ORDER BY device, port, queue
"""
COUNTED = f"""
SELECT device, port, queue, batch, min(window_start_ns) AS first_ns, max(ts_ns) AS last_ns
FROM ({DROPS}) WHERE drops IS NOT NULL GROUP BY device, port, queue, batch ORDER BY ALL
"""
TARGETS = f"""
SELECT device, max(ts_ns) AS ts_ns, arg_max(event, ts_ns) AS event FROM gnmi_events
WHERE event IN {tuple(UP_AFTER)} AND subscription <> 'otlp' GROUP BY device ORDER BY device
"""
# When a recording counted; while it goes on, its end is not known.
COUNTED_IN = """
SELECT coalesce(recorded_from($start_ns, $bin_ns), -9223372036854775808),
       coalesce(CASE WHEN $ended <> '' THEN recorded_until($end_ns, $bin_ns, $complete) END, 9223372036854775807)
"""
RECORDINGS = f"""
SELECT {", ".join(FOLLOWED["recordings"][0])} FROM recordings
WHERE ended = '' OR end_ns >= $since ORDER BY recording_id
"""


def without_stored(con: duckdb.DuckDBPyConnection, table: str, rows: pa.Table) -> pa.Table:
    """Returns ROWS without those that CON has, each as often as CON has it."""
    names, time_name = FOLLOWED[table]
    if not rows.num_rows or table in ("recordings", "gnmi_events", "clock"):  # only the newest row counts
        return rows
    con.register("fresh", rows)
    listed = ", ".join(names)
    found = con.sql(
        f"SELECT {listed} FROM fresh EXCEPT ALL SELECT {listed} FROM {table} "
        f"WHERE {time_name} >= (SELECT min({time_name}) FROM fresh) ORDER BY {time_name}"
    ).to_arrow_table()
    con.unregister("fresh")
    return joined(table, names, [found])
