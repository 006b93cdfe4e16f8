"""The context of a rack's bursts: probes in and out of them, and the queues of its switch ports."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from ..model.context import dicts
from ..read import probes as read_probes
from .period import Period

if TYPE_CHECKING:
    import duckdb

# A probe met a burst (met_burst of sql/macros.sql) of either end of its path; its port is unknown here, so it may have
# crossed it at any time. rack_spans has no overlaps in a host, so only the last burst that began before the end of the
# probe has to be examined.
_PATHS = """
WITH seen AS (
    SELECT src, dst, protocol, probe_host(src) AS sender, probe_host(dst) AS reflector, tx_ns, lost, measure,
           latency_ns, tx_ns + greatest(coalesce(latency_ns, 0), 0) AS reach_ns
    FROM measured_probes('probes', $since, $until, CAST(NULL AS VARCHAR))
    WHERE probe_host(src) IN (SELECT host FROM rack_recordings) OR probe_host(dst) IN (SELECT host FROM rack_recordings)
), marked AS (
    SELECT src, dst, protocol, measure, latency_ns, lost,
           coalesce(met_burst(tx_ns, reach_ns, there.start_ns, there.end_ns), false)
               OR coalesce(met_burst(tx_ns, reach_ns, here.start_ns, here.end_ns), false) AS met
    FROM seen ASOF LEFT JOIN rack_spans AS there ON reflector = there.host AND reach_ns >= there.start_ns
              ASOF LEFT JOIN rack_spans AS here ON sender = here.host AND reach_ns >= here.start_ns
)
SELECT src, dst, protocol, measure, met, count(*) AS sent, count(latency_ns) AS n, count(*) FILTER (lost) AS lost,
       known_quantile(latency_ns, 0.5) AS p50_ns, known_quantile(latency_ns, 0.99) AS p99_ns,
       known_quantile(latency_ns, 0.999) AS p999_ns, max(latency_ns) AS max_ns
FROM marked GROUP BY GROUPING SETS ((src, dst, protocol, measure, met), (src, dst, protocol, measure))
ORDER BY src, dst, protocol, met
"""
_LINKS = "FROM links_at('links', $at) ORDER BY device, port, host, interface"
_QUEUES = """
WITH believed AS MATERIALIZED (
    FROM believable_windows('queues', $since, $until)
), counting AS MATERIALIZED (
    SELECT device, port, queue, semantics, window_start_ns, ts_ns, dropped_packets FROM believed
    WHERE dropped_packets IS NOT NULL AND window_start_ns < ts_ns
), once AS (  -- drops of the port that are not in another queue, too
    SELECT device, port, queue, semantics, total(dropped_packets) AS port_dropped
    FROM windows_of_port('counting') WHERE is_of_port GROUP BY ALL
)
SELECT device, port, queue, semantics, any_value(port_dropped) AS port_dropped,
       count(ts_ns) AS windows, coalesce(any_value(impossible), 0) AS impossible,
       max({value: depth_bytes, earlier: -window_start_ns}) AS top, known_quantile(depth_bytes, 0.99) AS p99_bytes,
       total(dropped_packets) AS dropped,
       CASE WHEN count(dropped_packets) > 0 THEN count(*) FILTER (dropped_packets > 0) END AS dropping_windows,
       total(ecn_marked_packets) AS ecn_marked
FROM believed FULL JOIN impossible_windows('queues', $since, $until) USING (device, port, queue, semantics)
LEFT JOIN once USING (device, port, queue, semantics)
GROUP BY device, port, queue, semantics
"""


@dataclass(frozen=True)
class ProbeGroup:
    """Probes of a path that met a burst, or the others. Latency in ns; a quantile that n cannot separate from the
    largest is None."""

    sent: int
    n: int
    lost: int
    p50_ns: float | None
    p99_ns: float | None
    p999_ns: float | None
    max_ns: float | None


@dataclass(frozen=True)
class RackPath:
    """A probed path from or to a host of the rack. `measure` is the measure of its latency, '' if nothing was measured;
    `every` is of all of its probes."""

    src: str
    dst: str
    protocol: str
    measure: str
    every: ProbeGroup
    met: ProbeGroup
    clear: ProbeGroup


@dataclass(frozen=True)
class RackQueue:
    """A switch queue: its fullest window with the start of it, the fill level that 99 % of the windows do not exceed,
    and its losses, None if the device does not report them. `hosts` are attached to the port, if the store has it.
    `impossible` windows are left out."""

    device: str
    port: str
    queue: str
    semantics: str
    hosts: list[str]
    windows: int
    max_bytes: int | None
    max_at_ns: int | None
    p99_bytes: int | None
    dropped: int | None
    dropping_windows: int | None
    ecn_marked: int | None
    impossible: int


class RackQueues(NamedTuple):
    """The queues of a rack: the listed ones, the number of all, their drops together (None: none reports them), each
    packet once, without those of queues at the input; how many dropped any, how many do not report them, the impossible
    windows of all, and whether links identify those of the rack."""

    listed: list[RackQueue]
    number: int
    drops: int | None
    dropping: int
    uncounted: int
    impossible: int
    is_known: bool


def read_paths(con: duckdb.DuckDBPyConnection, period: Period, limit: int) -> tuple[list[RackPath], int]:
    """Returns the most probed paths that name a host of the rack, and the number of probes that name none."""
    where = {"since": period.since_ns, "until": period.until_ns}
    sides: dict[tuple[str, str, str, str], dict[bool | None, ProbeGroup]] = {}
    for row in dicts(con, _PATHS, where):
        name = row["src"], row["dst"], row["protocol"], row["measure"] or ""
        sides.setdefault(name, {})[row["met"]] = ProbeGroup(*(row[field] for field in ProbeGroup.__dataclass_fields__))
    nothing = ProbeGroup(0, 0, 0, None, None, None, None)
    paths = [
        RackPath(*name, every=of[None], met=of.get(True, nothing), clear=of.get(False, nothing))
        for name, of in sides.items()
    ]
    paths.sort(key=lambda path: (-path.every.sent, path.src, path.dst, path.protocol))
    return paths[:limit], read_probes.unplaced(con, period.since_ns, period.until_ns)


def read_queues(con: duckdb.DuckDBPyConnection, rack: str, period: Period, limit: int) -> RackQueues:
    """Returns the queues with most drops first, then the fullest. Queues that were empty in every window and dropped
    nothing are not listed."""
    where = {"since": period.since_ns, "until": period.until_ns}
    ports = _ports(con, rack, period)
    rows = dicts(con, _QUEUES, where)
    if ports:
        rows = [row for row in rows if _hosts(ports, row)]
    found = [
        RackQueue(
            row["device"],
            row["port"],
            row["queue"],
            row["semantics"],
            _hosts(ports, row),
            row["windows"],
            row["top"]["value"],
            None if row["top"]["value"] is None else -row["top"]["earlier"],
            row["p99_bytes"],
            row["dropped"],
            row["dropping_windows"],
            row["ecn_marked"],
            row["impossible"],
        )
        for row in rows
    ]
    shown_queues = [queue for queue in found if queue.max_bytes or queue.dropped or queue.impossible]
    shown_queues.sort(
        key=lambda queue: (
            -(queue.dropped or 0),
            -(queue.max_bytes or 0),
            queue.device,
            queue.port,
            queue.queue,
            queue.semantics,
        )
    )
    uncounted = sum(row["dropped"] is None for row in rows)
    dropping, impossible = sum(bool(queue.dropped) for queue in found), sum(queue.impossible for queue in found)
    return RackQueues(
        shown_queues[:limit], len(found), _drops(ports, rows), dropping, uncounted, impossible, bool(ports)
    )


def _drops(ports: dict[tuple[str, str, str], list[str]], rows: list[dict[str, Any]]) -> int | None:
    """Returns the drops of all these queues together, each packet once: all of those that a link names, and of other
    queues those that left the port's output. None if none reports them."""
    if all(row["dropped"] is None for row in rows):
        return None
    return sum(row["dropped" if _is_linked_alone(ports, row) else "port_dropped"] or 0 for row in rows)


def _is_linked_alone(ports: dict[tuple[str, str, str], list[str]], row: dict[str, Any]) -> bool:
    """Returns whether a link names the queue, and none names its port."""
    device, port, queue = row["device"], row["port"], row["queue"]
    return (device, port, queue) in ports and (device, port, "") not in ports


def _ports(con: duckdb.DuckDBPyConnection, rack: str, period: Period) -> dict[tuple[str, str, str], list[str]]:
    """Returns the hosts of the rack by device, port and queue ('' for all of a port's), by the links at the end of the
    period; empty if the store has none."""
    here = {row[0] for row in con.execute("SELECT DISTINCT host FROM rack_recordings").fetchall()}
    hosts: dict[tuple[str, str, str], list[str]] = {}
    for row in dicts(con, _LINKS, {"at": period.until_ns}):
        if row["rack"] == rack or row["host"] in here:
            name = " ".join(part for part in (row["host"], row["interface"]) if part)
            hosts.setdefault((row["device"], row["port"], row["queue"]), []).append(name)
    return hosts


def _hosts(ports: dict[tuple[str, str, str], list[str]], row: dict[str, Any]) -> list[str]:
    device, port, queue = row["device"], row["port"], row["queue"]
    return [*ports.get((device, port, queue), ()), *(ports.get((device, port, ""), ()) if queue else ())]
