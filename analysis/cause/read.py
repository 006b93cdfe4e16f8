"""The investigation's reads from a store: recorded stretches with their bins and bursts, probes, queue windows,
addresses.

Its other reads are in files of their own: the counters of switch ports in read_counters.py, senders while a port was
full in whatif/read_senders.py, links in link_ends.py, and the senders of bursts in fanin.py and trigger.py. Times are
returned as float64 nanoseconds since an origin, as port.py needs them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...quality import Quality
from ..model import losses
from ..model.stats import Floats, Whole
from ..read.probes import STAMPS, sound
from .evidence.switch import PortQueue
from .link_ends import OTHER_WAY, Lane, LinkEnd
from .port import CHUNK, Port, port_from_bins
from .signals import Signals
from .tail import DEFAULT, Probes, TailRule

if TYPE_CHECKING:
    import duckdb

    from ..bursts.find import BurstDefinition

Name = tuple[str, str]  # device, port
Path = tuple[str, str, str, int, int]  # src, dst, protocol, first and last tx_ns

OF_BURSTS = (
    "burst", "recording_id", "clock_epoch", "host", "rack", "interface", "direction", "bin_ns", "start_ns",
    "end_ns", "bytes",
    "fan_in", "onset_spread_ns", "pattern",
)  # fmt: skip
# Tables of bursts.sql that are not read afterwards.
STEPS = ("warm", "possible", "reaches", "filled", "stretches", "totals", "senders")
AS_FINE = 2  # times as wide as other windows: these count as equally fine
MOST_UNSAMPLED = 1000  # bins of a gap
SPAN = "coalesce($since, 0), coalesce($until, 9223372036854775807)"
_MAC = "([0-9a-f]{2}:){5}[0-9a-f]{2}"  # a source that is not an IP address
_WINDOWS = f"believable_windows('queues', {SPAN})"
IN_TIME = "tx_ns < coalesce($until, 9223372036854775807) AND tx_ns >= coalesce($since, 0)"


@dataclass(frozen=True)
class Question:
    """The question of an investigation. aliases: other names of the recorded host in the probes."""

    definition: BurstDefinition
    rule: TailRule = DEFAULT
    link_bps: int | None = None
    hosts: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()
    since_ns: int | None = None
    until_ns: int | None = None
    seed: int = 1

    @property
    def span(self) -> dict[str, int | None]:
        """The variables of IN_TIME."""
        return {"since": self.since_ns, "until": self.until_ns}


class SenderOnsets(NamedTuple):
    """The onset of each sender, ns after the start of its burst, sorted; burst: its number in burst_sources."""

    burst: Whole
    since: Floats


def read_recordings(con: duckdb.DuckDBPyConnection, question: Question) -> list[dict[str, Any]]:
    """Returns recorded stretches: one per recording and clock epoch, from the first to the last bin that is asked for.
    from_ns: bins from this time on belong to this stretch, earlier ones to the stretch before it."""
    result = con.execute(
        """SELECT recording_id, clock_epoch, rack, host, interface, direction, coalesce($link, link_bps) AS link_bps,
                  bin_ns, greatest(start_ns, recorded_from(coalesce($since, start_ns), bin_ns)) AS first_ns,
                  least(end_ns, recorded_until(coalesce($until, end_ns), bin_ns, false)) AS end_ns,
                  coalesce(lag(end_ns) OVER (PARTITION BY recording_id, clock_epoch ORDER BY start_ns),
                           -9223372036854775808) AS from_ns
           FROM recorded
           WHERE (len($hosts) = 0 OR list_contains($hosts, host))
             AND start_ns < coalesce($until, 9223372036854775807) AND end_ns > coalesce($since, 0)
           ORDER BY host, interface, direction, first_ns, recording_id""",
        {"link": question.link_bps, "hosts": list(question.hosts), **question.span},
    )
    names = [column[0] for column in result.description]
    return [dict(zip(names, row, strict=True)) for row in result.fetchall()]


_OF_RECORDING = "recording_id = $recording AND clock_epoch = $clock_epoch AND ts_ns >= $first AND ts_ns < $end"


def _of_recording(recording: dict[str, Any]) -> dict[str, Any]:
    """Returns the variables of _OF_RECORDING."""
    names = {"recording": "recording_id", "clock_epoch": "clock_epoch", "first": "first_ns", "end": "end_ns"}
    return {variable: recording[column] for variable, column in names.items()}


def read_paths(con: duckdb.DuckDBPyConnection, question: Question) -> list[Path]:
    """Returns the probed paths."""
    rows: list[Path] = con.execute(
        f"SELECT src, dst, protocol, min(tx_ns), max(tx_ns) FROM probes WHERE {IN_TIME} GROUP BY ALL ORDER BY ALL",
        question.span,
    ).fetchall()
    return rows


def count_probes(con: duckdb.DuckDBPyConnection, question: Question) -> int:
    """Returns the number of probes on all paths."""
    [(count,)] = con.execute(f"SELECT count(*) FROM probes WHERE {IN_TIME}", question.span).fetchall()
    return int(count)


def probes_by_time(con: duckdb.DuckDBPyConnection, question: Question, width_ns: int) -> dict[int, int]:
    """Returns the number of probes on all paths in each WIDTH_NS since the beginning of the question, by its number."""
    rows = con.execute(
        f"SELECT (tx_ns - $since) // $width, count(*) FROM probes WHERE {IN_TIME} GROUP BY ALL",
        {**question.span, "width": width_ns},
    ).fetchall()
    return dict(rows)


def read_port(
    con: duckdb.DuckDBPyConnection,
    lane: Lane,
    chosen: dict[Lane, list[dict[str, Any]]],
    origin: int,
    lost: losses.CaptureLoss,
    end: LinkEnd | None = None,
) -> Port:
    """Returns the port with the bins of a lane's chosen recordings, and with the frames that asked its senders to stop.
    lost: what their captures dropped. end: the end of the host, if a switch recorded the lane."""
    lossy: list[Floats] = []
    rows = chosen[lane]

    def chunks() -> Iterator[tuple[Floats, NDArray[np.int64]]]:
        for row in rows:  # a filter for each row is pushed down to the files, a join with all rows is not
            for batch in con.sql(
                f"SELECT ts_ns, wire_bytes, quality FROM bins WHERE {_OF_RECORDING}", params=_of_recording(row)
            ).to_arrow_reader(CHUNK):
                at = (batch["ts_ns"].to_numpy() - origin).astype(np.float64)
                lossy.append(at[batch["quality"].to_numpy() & Quality.DROPS != 0])
                yield at, batch["wire_bytes"].to_numpy()
        for row in rows if end else ():
            yield unsampled(con, row, origin)

    recorded = [(float(recording["first_ns"] - origin), float(recording["end_ns"] - origin)) for recording in rows]
    first = rows[0]
    port = port_from_bins(lane, first["link_bps"], first["bin_ns"], chunks(), recorded, lossy, first["rack"])
    repeated, marked = (places_with(con, column, rows, port, origin) for column in ("retransmits", "ce_packets"))
    signals = read_signals(con, port, chosen.get((*lane[:2], OTHER_WAY.get(lane[2], lane[2])), []), origin)
    port = replace(
        port, repeated=repeated, marked=marked, dropped=lost.dropped, is_least=lost.is_least, signals=signals
    )
    return replace(port, switch=lane, **end._asdict()) if end else port


def dropped_by(
    con: duckdb.DuckDBPyConnection, chosen: Mapping[Lane, Sequence[Mapping[str, Any]]]
) -> dict[Lane, losses.CaptureLoss]:
    """Returns the packets that the captures of the chosen recordings of each lane dropped, of whole captures."""
    captures = dict(con.execute("SELECT recording_id, capture_id FROM recordings").fetchall())
    found = losses.by_capture(con)
    return {
        lane: losses.summed(found, [captures[row["recording_id"]] for row in rows if row["recording_id"] in captures])
        for lane, rows in chosen.items()
    }


def unsampled(
    con: duckdb.DuckDBPyConnection, recording: dict[str, Any], origin: int
) -> tuple[Floats, NDArray[np.int64]]:
    """Returns bins for the times in which samples of a switch are missing but its running total counts the bytes. The
    bytes are spread evenly: a total that nearly fills the link means that the link was busy throughout. The bins stay
    marked as lossy, so that a smaller total is no evidence."""
    names = {"recording": "recording_id", "bin": "bin_ns", "first": "first_ns", "end": "end_ns"}
    found = con.execute(
        """SELECT ts_ns - $origin AS at, part FROM (
               SELECT unnest(range(start_ns, end_ns, CAST($bin AS BIGINT))) AS ts_ns,
                      bytes // ((end_ns - start_ns) // $bin) AS part
               FROM gaps WHERE recording_id = $recording AND reason = 'not sampled' AND bytes > 0
                 AND end_ns - start_ns <= $most * CAST($bin AS BIGINT))
           WHERE ts_ns >= $first AND ts_ns < $end""",
        {
            "origin": origin,
            "most": MOST_UNSAMPLED,
            **{variable: recording[column] for variable, column in names.items()},
        },
    ).fetchnumpy()
    return np.asarray(found["at"]).astype(np.float64), np.asarray(found["part"]).astype(np.int64)


def read_signals(con: duckdb.DuckDBPyConnection, port: Port, rows: list[dict[str, Any]], origin: int) -> Signals | None:
    """Returns the pause frames and congestion notifications about a port's traffic, from the chosen recordings of the
    other direction; None if there are none. NULL in their bins means that they were not counted."""
    batches = [
        con.execute(
            f"""SELECT CAST(ts_ns - $origin AS DOUBLE) AS at, pause_ns(least(pause_quanta, 65535), $link) AS asked,
                      pause_classes AS classes, pause_frames AS pauses, resume_frames AS resumes,
                      cnp_packets AS notifications
               FROM bins WHERE {_OF_RECORDING}
                 AND (pause_frames > 0 OR resume_frames > 0 OR cnp_packets > 0) ORDER BY ts_ns""",
            {"origin": origin, "link": port.link_bps, **_of_recording(row)},
        ).fetchnumpy()
        for row in rows
    ]
    columns = {
        name: np.concatenate([np.ma.filled(np.ma.asarray(batch[name]), 0) for batch in batches])
        for name in Signals._fields[1:] if batches
    }  # fmt: skip
    return Signals(rows[0]["bin_ns"], **columns) if columns and len(columns["at"]) else None


def places_with(
    con: duckdb.DuckDBPyConnection, column: str, rows: list[dict[str, Any]], port: Port, origin: int
) -> Floats:
    """Returns the sorted positions of the bins of the chosen recordings in which a column is not 0."""
    found = [
        con.execute(
            f"SELECT CAST(ts_ns - $origin AS DOUBLE) AS at FROM bins WHERE {column} > 0 AND {_OF_RECORDING}",
            {"origin": origin, **_of_recording(row)},
        ).fetchnumpy()["at"]
        for row in rows
    ]
    place = port.position(np.concatenate([np.asarray(at) for at in found]) + port.bin_ns / 2)
    return np.unique(np.floor(place[np.isfinite(place)]))


def read_bursts(
    con: duckdb.DuckDBPyConnection, question: Question, chosen: dict[Lane, list[dict[str, Any]]]
) -> list[dict[str, Any]]:
    """Returns OF_BURSTS of the bursts of the chosen recordings; `burst` is the number in the tables that
    detect_bursts() leaves."""
    from ..bursts.find import detect_bursts

    if not chosen:
        return []
    detect_bursts(
        con,
        question.definition,
        hosts=sorted({lane[0] for lane in chosen}),
        recordings=sorted({recording["recording_id"] for rows in chosen.values() for recording in rows}),
        since_ns=question.since_ns,
        until_ns=question.until_ns,
    )
    rows = con.execute(f"SELECT {', '.join(OF_BURSTS)} FROM bursts ORDER BY burst").fetchall()
    for table in STEPS:  # frees memory for the next steps
        con.execute(f"DROP TABLE IF EXISTS {table}")
    found = [dict(zip(OF_BURSTS, row, strict=True)) for row in rows]
    spans: dict[tuple[str, int], list[tuple[int, int]]] = {}
    for recording in (recording for rows in chosen.values() for recording in rows):
        spans.setdefault((recording["recording_id"], recording["clock_epoch"]), []).append(
            (recording["from_ns"], recording["end_ns"])
        )
    return [
        burst
        for burst in found
        if any(
            first <= burst["start_ns"] < end
            for first, end in spans.get((burst["recording_id"], burst["clock_epoch"]), ())
        )
    ]


def read_probes(con: duckdb.DuckDBPyConnection, path: Path, question: Question, origin: int) -> Probes:
    """Returns the exchanges of one path in the order of sending."""
    of_path = f"FROM probes WHERE src = $src AND dst = $dst AND protocol = $protocol AND {IN_TIME}"
    chosen = {**dict(zip(("src", "dst", "protocol"), path, strict=False)), **question.span}
    names = (*STAMPS, "rtt_ns")
    counts = ", ".join(f"count({sound(name)})" for name in names)
    [(kind, *known)] = con.execute(f"SELECT min(nullif(stamp_kind, '')), {counts} {of_path}", chosen).fetchall()
    [(measure,)] = con.execute(
        f"SELECT measure FROM path_measures('probes', {SPAN}, CAST(NULL AS VARCHAR)) "
        "WHERE src = $src AND dst = $dst AND protocol = $protocol",
        chosen,
    ).fetchall()
    taken = [name for name, count in zip(names, known, strict=True) if count]
    ns = [
        f"coalesce(CAST({sound(name)} - {0 if name == 'rtt_ns' else origin} AS DOUBLE), 'nan') AS {name}"
        for name in taken
    ]
    found = con.execute(f"SELECT {', '.join(ns)}, lost {of_path}", chosen).fetchnumpy()
    order = found["tx_ns"].argsort(kind="stable") if (np.diff(found["tx_ns"]) < 0).any() else slice(None)
    none = np.broadcast_to(np.nan, len(found["tx_ns"]))
    columns = {name: np.asarray(found[name])[order] if name in taken else none for name in names}
    stamps: dict[str, Any] = {name.removesuffix("_ns"): column for name, column in columns.items()}
    lost = np.ma.filled(np.ma.asarray(found["lost"]), False).astype(bool)[order]
    src, dst, protocol = path[:3]
    return Probes(src, dst, protocol, lost=lost, stamp_kind=kind or "", measure=measure or "", **stamps)


def read_onsets(con: duckdb.DuckDBPyConnection, bursts: list[dict[str, Any]]) -> SenderOnsets:
    """Returns the onset of each counted sender in each of these bursts, sorted."""
    rows = con.execute(
        """SELECT burst, CAST(s.onset_ns - b.start_ns AS DOUBLE) AS since
           FROM burst_sources s JOIN bursts b USING (burst)
           WHERE s.counted AND s.known AND burst IN (SELECT unnest($bursts)) ORDER BY since, burst""",
        {"bursts": [burst["burst"] for burst in bursts]},
    ).fetchnumpy()
    return SenderOnsets(np.asarray(rows["burst"]), np.asarray(rows["since"]))


def own_addresses(con: duckdb.DuckDBPyConnection) -> dict[str, str]:
    """Returns address → host for hosts with a recorded outgoing direction: packets sent there carry the host's own
    address. An address counts if it has most of the bytes of its family on an interface, and the host receives less
    than half as many from it: a forwarding host also sends packets of other senders."""
    rows = con.execute(
        """WITH sent AS (
               SELECT source, host, sum(bytes) AS bytes FROM sources
               WHERE direction = 'out' AND source <> 'other' AND source NOT SIMILAR TO $mac
               GROUP BY source, host, interface
               QUALIFY sum(bytes) * 2 > sum(sum(bytes)) OVER (PARTITION BY host, interface, contains(source, ':'))
           ), received AS (
               SELECT source, host, sum(bytes) AS bytes FROM sources
               WHERE direction = 'in' AND source IN (SELECT source FROM sent) GROUP BY source, host
           )
           SELECT source, host FROM sent LEFT JOIN received USING (source, host)
           WHERE coalesce(2 * received.bytes < sent.bytes, true) ORDER BY ALL""",
        {"mac": _MAC},
    ).fetchall()
    return dict(rows)


def packets_from(
    con: duckdb.DuckDBPyConnection, port: Port, addresses: list[str], since_ns: int, until_ns: int
) -> int | None:
    """Returns an upper bound for the packets of some addresses that a port carried in that time, including packets of
    unknown senders. None if its recordings cannot show it: they had a filter, or no addresses."""
    lane = {**dict(zip(("host", "interface", "direction"), port.lane, strict=True)), "rack": port.rack}
    of_lane = "rack = $rack AND host = $host AND interface = $interface AND direction = $direction"
    [(filtered, unknown)] = con.execute(
        f"SELECT bool_or(filter <> ''), sum(unattributed_packets) FROM recordings WHERE {of_lane}", lane
    ).fetchall()
    [(senders, packets)] = con.execute(
        f"""SELECT count(*) FILTER (source <> 'other' AND source NOT SIMILAR TO $mac),
                  sum(packets) FILTER (source = 'other' OR list_contains($addresses, source))
           FROM sources WHERE {of_lane} AND last_ns >= $since AND ts_ns < $until""",
        {**lane, "mac": _MAC, "addresses": addresses, "since": since_ns, "until": until_ns},
    ).fetchall()
    return None if filtered or not senders else int(packets or 0) + int(unknown or 0)


def period(port: Port, origin: int) -> dict[str, int]:
    """Returns the recorded time."""
    return {"since": origin + int(port.starts[0]),
            "until": origin + int(port.time(np.array([port.bins - 1e-9]))[0]) + 1}  # fmt: skip


def linked_ports(con: duckdb.DuckDBPyConnection, ports: list[Port], origin: int) -> dict[int, Name]:
    """Returns the switch port that each recorded port is attached to at the end of its recordings, by id(port). Switch
    ports themselves and ports without a link are left out. A link without an interface applies to every interface of
    its host; of several links, the one that was reported last counts."""
    ends: dict[int, list[Port]] = {}
    for port in ports:
        if not port.switch:
            ends.setdefault(period(port, origin)["until"], []).append(port)
    found: dict[int, Name] = {}
    for at, of_then in ends.items():
        rows = con.execute(
            "SELECT host, interface, device, port FROM links_at('links', $at) "
            "ORDER BY interface = '', ts_ns DESC, device, port",
            {"at": at},
        ).fetchall()
        for port in of_then:
            fitting = (row[2:] for row in rows if row[0] == port.host and row[1] in ("", port.interface))
            if name := next(fitting, None):
                found[id(port)] = name
    return found


def read_queues(
    con: duckdb.DuckDBPyConnection,
    question: Question,
    ports: list[Port],
    linked: Mapping[int, Name],
    origin: int,
    notes: list[str],
) -> dict[int, PortQueue]:
    """Returns the windows of the fullest queue at each port's output, of one kind of depth: the finest if several are
    stored, and others where these have none. By id(port). linked: see linked_ports."""
    listed = con.execute(
        f"""SELECT device, port, queue, semantics, batch, median(ts_ns - window_start_ns) AS width,
                  count(*) AS windows, max(max_bytes) AS peak
           FROM {_WINDOWS} WHERE max_bytes IS NOT NULL AND ts_ns > window_start_ns AND is_of_output(queue)
           GROUP BY ALL ORDER BY width, peak DESC, device, port, queue, semantics, batch""",
        question.span,
    ).fetchall()
    found: dict[int, PortQueue] = {}
    switch_ports = {row[:2] for row in listed}
    for port in ports:
        if port.direction == "out":  # the queue of a switch is before a receiver
            continue
        place = port.switch[:2] if port.switch else linked.get(id(port))
        rows = [row for row in listed if row[:2] == place]
        rows = rows or [row for row in listed if names_port(row[1], port)]
        if not rows and len(switch_ports) == 1 and len({(p.host, p.interface) for p in ports}) == 1:
            rows = listed
            notes.append(f"queue windows of {rows[0][0]} {rows[0][1]} are assigned to {port.name}: there are no others")
        if not rows:
            continue
        finest = [row for row in rows if row[5] <= AS_FINE * rows[0][5]]
        chosen = max(finest, key=lambda row: row[7])[:3]
        of_queue = [row for row in finest if row[:3] == chosen]
        kind = max(of_queue, key=lambda row: row[6])[3]  # a switch may report both samples and maxima
        batches = [(row[4], row[5]) for row in rows if row[:4] == (*chosen, kind)]
        found[id(port)] = read_windows(con, question, chosen, kind, batches, origin)
    return found


def read_windows(
    con: duckdb.DuckDBPyConnection,
    question: Question,
    name: tuple[str, str, str],
    semantics: str,
    batches: list[tuple[str, float]],
    origin: int,
) -> PortQueue:
    """Returns the windows of one queue in which the device reported a maximum. name: device, port, queue; batches: the
    names of those that have it and the width of their windows, the finest first."""
    queue = {**dict(zip(("device", "port", "queue"), name, strict=True)), **question.span}
    windows = con.execute(
        f"""SELECT window_start_ns - $origin AS begin, ts_ns - $origin AS "end", max_bytes,
                  list_position($batches, batch) - 1 AS batch
           FROM {_WINDOWS}
           WHERE device = $device AND port = $port AND queue = $queue AND list_contains($batches, batch)
             AND semantics = $semantics AND max_bytes IS NOT NULL ORDER BY ts_ns""",
        {"origin": origin, "semantics": semantics, "batches": [batch for batch, _ in batches], **queue},
    ).fetchnumpy()
    begin, end, depth = (np.asarray(windows[key]).astype(np.float64) for key in ("begin", "end", "max_bytes"))
    level = _levels([width for _, width in batches])[np.asarray(windows["batch"]).astype(np.int64)]
    kept = finest_in_each_time(begin, end, level)
    begin, end, depth = begin[kept], end[kept], depth[kept]
    [(dropped, marked)] = con.execute(  # these may be in windows of another collection
        f"""SELECT total(dropped_packets), total(ecn_marked_packets) FROM {_WINDOWS}
           WHERE device = $device AND port = $port AND queue = $queue""",
        queue,
    ).fetchall()
    return PortQueue("{} {} queue {}".format(*name), begin, end, depth, dropped, marked, name[:2])


def _levels(widths: list[float]) -> Whole:
    """Returns a number for each width, from the finest on; those within AS_FINE have the same."""
    levels, level, finest = [], -1, 0.0
    for width in widths:
        if level < 0 or width > AS_FINE * finest:
            level, finest = level + 1, width
        levels.append(level)
    return np.array(levels, np.int64)


def finest_in_each_time(begin: Floats, end: Floats, level: Whole) -> NDArray[np.bool_]:
    """Returns which windows overlap none of those of a finer LEVEL that are kept."""
    kept = np.asarray(level == 0)
    for coarser in range(1, int(level.max(initial=0)) + 1):
        order = np.flatnonzero(kept)
        order = order[np.argsort(begin[order], kind="stable")]
        reached = np.concatenate(([-np.inf], np.maximum.accumulate(end[order])))
        asked = np.flatnonzero(level == coarser)
        kept[asked] = reached[np.searchsorted(begin[order], end[asked])] <= begin[asked]
    return kept


def names_port(switch_port: str, port: Port) -> bool:
    """Returns whether the name of a switch's port contains the host or interface behind it."""
    parts = switch_port.lower().replace("_", "-").replace("/", "-").split("-")
    return any(
        name and (name.lower() == switch_port.lower() or name.lower() in parts) for name in (port.host, port.interface)
    )
