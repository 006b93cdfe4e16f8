"""The recordings and bursts of one rack in one period, as tables of a connection, and sums over them.

`detected` leaves in the connection, in addition to the tables of analysis.bursts.find_bursts: rack_recordings (the
recordings that overlap the period), rack_totals (sums of their bins), rack_recorded (when they counted in it),
rack_bursts (the recorded times of bursts) and rack_spans (the recorded times in which each host received a burst,
without overlaps).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ...quality import Quality
from ...sql.damage import readable
from ...units import NS_PER_S
from ..bursts.find import COLUMNS, PATTERNS, BurstDefinition, detect_bursts, overlapping_recordings
from ..model import coverage, distributions, flow_control, losses
from ..model.context import dicts
from ..model.distributions import Quantiles
from ..model.envelope import Interval, merge_intervals
from ..model.flow_control import FlowControl
from ..model.losses import CaptureLoss
from ..read import bins as read_bins

if TYPE_CHECKING:
    import duckdb

    from ...sql import StoreFolder

LaneName = tuple[str, str, str]  # host, interface, direction
POINTS = 200  # of a distribution

# The recordings that counted in the period; of those without a packet, the ones that were written in it. `recorded` has
# the clock epochs of a recording, but not the time of missing bins: the row of a recording says that it had some then.
_RECORDINGS = """
CREATE TEMP TABLE rack_recordings AS
SELECT * REPLACE (coalesce($link,
                           link_bps) AS link_bps), CAST(row_number() OVER (ORDER BY recording_id) AS INTEGER) AS number
FROM main.recordings
WHERE rack = $rack AND CASE
        WHEN start_ns IS NULL THEN written_ns >= $since AND written_ns < $until
        WHEN is_span_known(clock_epochs, start_ns, end_ns)
            THEN recorded_from(start_ns, bin_ns) < $until AND recorded_until(end_ns, bin_ns, complete) > $since END
    OR recording_id IN (SELECT recording_id FROM recorded WHERE rack = $rack AND start_ns < $until AND end_ns > $since)
"""
_PARTS = "CREATE TEMP VIEW rack_parts AS FROM received_parts('bursts', 'rack_recorded')"
_SPANS = "CREATE TEMP TABLE rack_spans AS FROM received_times('rack_parts') ORDER BY host, start_ns"
# before_ns: the end of the recorded time before it, of the same recording and clock epoch
_RECORDED = """
CREATE TEMP TABLE rack_recorded AS
SELECT *, lag(end_ns) OVER (PARTITION BY recording_id, clock_epoch ORDER BY start_ns) AS before_ns
FROM (SELECT unnest(CAST($recordings AS VARCHAR[])) AS recording_id,
             unnest(CAST($epochs AS USMALLINT[])) AS clock_epoch, unnest(CAST($starts AS BIGINT[])) AS start_ns,
             unnest(CAST($ends AS BIGINT[])) AS end_ns)
"""
# The recorded times of each burst as coverage.in_bursts has them, several if bins are missing in between; one of no
# length at its start if none of it was recorded. begins: the first of the burst
_CLIPPED = """
CREATE TEMP TABLE rack_bursts AS
SELECT found.recording_id, host, interface, direction, receiver, greatest(found.start_ns, own.start_ns) AS start_ns,
       CASE WHEN own.start_ns IS NULL THEN found.start_ns ELSE least(found.end_ns, own.end_ns) END AS end_ns,
       coalesce(before_ns <= found.start_ns, true) AS begins
FROM bursts AS found LEFT JOIN rack_recorded AS own
    ON own.recording_id = found.recording_id AND own.clock_epoch = found.clock_epoch
    AND own.start_ns < found.end_ns AND own.end_ns > found.start_ns
"""
_FACTS = """
SELECT recording_id, capture_id, host, interface, direction, link_bps, bin_ns, complete, clock, late,
       backend = 'otlp' AS is_port,
       coalesce(of_lane.receiver, receiver_of(host, interface, direction, backend)) AS receiver,
       coalesce(t.packets, 0) AS packets,
       coalesce(t.wire_bytes, 0) AS wire_bytes, coalesce(largest, 0) AS largest,
       coalesce(t.quality, 0) AS quality, coalesce(losing_bins, 0) AS losing_bins,
       coalesce(busiest_second, 0) AS busiest_second, first_second, of_first_second, last_second, of_last_second
FROM rack_recordings LEFT JOIN rack_totals AS t USING (number)
    LEFT JOIN (SELECT recording_id, receiver FROM lanes) AS of_lane USING (recording_id)
ORDER BY host, interface, direction, number
"""
_CAPTURES = """
SELECT host, string_agg(DISTINCT interface, ', ' ORDER BY interface), capture_id
FROM rack_recordings GROUP BY capture_id, host ORDER BY ALL
"""
_OWN_TIMES = """
SELECT host, interface, direction, start_ns, end_ns FROM own_times JOIN lanes USING (lane)
"""
_SHARED_TIMES = """
SELECT host, interface, direction, greatest(found.start_ns, own_times.start_ns), least(found.end_ns, own_times.end_ns)
FROM rack_bursts AS found JOIN (SELECT recording_id, lane FROM lanes) AS lanes USING (recording_id) JOIN own_times
    ON lanes.lane = own_times.lane AND found.start_ns < own_times.end_ns AND found.end_ns > own_times.start_ns
WHERE receiver IS NOT NULL
"""
_OF_EACH_PATTERN = ", ".join(f'count(*) FILTER (pattern = $${name}$$) AS "{name}"' for name in PATTERNS)
_REACHED = """
WITH reached AS (
    SELECT *, greatest(start_ns, least(end_ns, coalesce(max(end_ns) OVER earlier, start_ns))) AS fresh_ns
    FROM rack_bursts WHERE $with_beside OR receiver IS NOT NULL
    WINDOW earlier AS (PARTITION BY host, interface, direction ORDER BY start_ns, end_ns
                       ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)
)"""  # fresh_ns: from then to its end, no earlier burst of the lane (e.g. of another recording) continues
_BURSTS = f"""
{_REACHED}, lasting AS (
    SELECT host, interface, direction, sum(end_ns - fresh_ns) AS burst_ns FROM reached GROUP BY ALL
)
SELECT host, interface, direction, count(*) AS bursts, any_value(burst_ns) AS burst_ns,
       known_quantile(duration_ns, 0.5) AS p50_ns, known_quantile(duration_ns, 0.9) AS p90_ns,
       known_quantile(duration_ns, 0.99) AS p99_ns, max(duration_ns) AS longest_ns,
       max(peak_utilization) AS peak_utilization,
       arg_max(bin_ns, {{peak: peak_utilization, narrower: -bin_ns}}) AS peak_bin_ns,
       quantile_disc(nullif(fan_in, 0), 0.5) AS fan_in, max(nullif(fan_in, 0)) AS largest_fan_in,
       sum(bytes) AS bytes, count(*) FILTER (quality & {Quality.DROPS:d} <> 0) AS under_loss,
       {_OF_EACH_PATTERN}
FROM bursts JOIN lasting USING (host, interface, direction)
WHERE $with_beside OR receiver IS NOT NULL
GROUP BY host, interface, direction
"""
_CELLS = f"""
{_REACHED}, slots AS (
    SELECT host, interface, direction, start_ns, fresh_ns, end_ns, begins,
           unnest(range(start_ns // $width, greatest(start_ns, end_ns - 1) // $width + 1)) AS slot FROM reached
)
SELECT host, interface, direction, slot, count(*) FILTER (begins AND start_ns // $width = slot),
       CAST(sum(greatest(0, least(end_ns, (slot + 1) * $width) - greatest(fresh_ns, slot * $width))) AS BIGINT)
FROM slots GROUP BY ALL
"""
_FEEDERS = """
WITH sent AS (
    SELECT source, CAST(sum(CAST(round(s.bytes) AS BIGINT)) AS BIGINT) AS bytes, count(*) AS bursts,
           count(*) FILTER (counted) AS led, list(DISTINCT host ORDER BY host) AS hosts, max(members) AS members
    FROM burst_sources AS s JOIN bursts USING (burst) WHERE receiver IS NOT NULL GROUP BY source
)
SELECT *, count(*) FILTER (source <> 'other') OVER () AS feeders,
       coalesce(max(members) FILTER (source = 'other') OVER (), 0) AS others,
       CAST(sum(bytes) OVER () AS BIGINT) AS all_bytes
FROM sent ORDER BY bytes DESC, source LIMIT $limit
"""
_FEEDING = """
SELECT source, CAST(sum(CAST(round(s.bytes) AS BIGINT)) AS BIGINT)
FROM burst_sources AS s JOIN bursts USING (burst) WHERE receiver IS NOT NULL AND counted GROUP BY source
"""
_WORST = """
SELECT b.* EXCLUDE (burst, quality), quality_names(quality) AS quality, top_sources, services
FROM (SELECT * FROM bursts ORDER BY bytes DESC, start_ns, host, interface, direction LIMIT $limit) AS b
JOIN burst_senders USING (burst)
ORDER BY b.bytes DESC, b.start_ns, b.host, b.interface, b.direction
"""


@dataclass(frozen=True)
class Period:
    """[since_ns, until_ns), Unix ns."""

    since_ns: int
    until_ns: int

    @property
    def span_ns(self) -> int:
        return self.until_ns - self.since_ns

    def shifted(self, back_ns: int) -> Period:
        """Returns an earlier period of the same length."""
        return Period(self.since_ns - back_ns, self.until_ns - back_ns)


@dataclass(frozen=True)
class RackLane:
    """One direction of one interface in a period. `link_bps` is None if it is unknown: the lane then has neither bursts
    nor `coverage`, since none could be detected.

    Times are in ns. `peak_utilization` is of the fullest bin in a burst, which is `peak_bin_ns` long; `busiest_bin`
    and `busiest_second` are bits per second over the fullest stored bin, which is `busiest_bin_ns` long, and the
    fullest second of the clock. `bin_ns` is the narrowest width. `patterns` counts bursts by pattern. `fan_in`, the
    median, and `largest_fan_in` are of bursts with known senders. `late` are packets of whole recordings, and
    `loss` is of whole captures, including those that reach beyond the period. `receiver`: the host that received
    the traffic, or the switch port before it if that host is unknown; None if none did. `is_port`: the lane is a
    port of a switch, and `host` is the switch.
    """

    host: str
    interface: str
    direction: str
    link_bps: int | None
    bin_ns: int
    coverage: list[Interval]
    packets: int
    wire_bytes: int
    busiest_bin: float
    busiest_bin_ns: int
    busiest_second: float
    bursts: int
    burst_ns: int
    burst_bytes: int
    p50_ns: int | None
    p90_ns: int | None
    p99_ns: int | None
    longest_ns: int | None
    peak_utilization: float | None
    peak_bin_ns: int | None
    fan_in: int | None
    largest_fan_in: int | None
    patterns: dict[str, int]
    under_loss: int
    loss: CaptureLoss
    late: int
    losing_bins: int
    quality: int
    cut_off: int
    clocks: list[str]
    receiver: str | None
    is_port: bool = False
    flow_control: FlowControl = field(default_factory=FlowControl)

    @property
    def name(self) -> LaneName:
        return self.host, self.interface, self.direction

    @property
    def recorded_ns(self) -> int:
        return coverage.length(self.coverage)


@dataclass(frozen=True)
class InterfaceDrops:
    """The packets that the captures of an interface dropped in whole recordings, including those that reach beyond the
    period; each packet once, though all recordings of a capture count it. `is_least`: there may be more."""

    host: str
    interface: str  # "eth0, eth1" for a capture of several
    dropped: int
    is_least: bool


@dataclass(frozen=True)
class BurstSender:
    """A sender of bytes in bursts that hosts of the rack received. `led`: bursts with this sender in their fan-in."""

    source: str
    bytes: int
    bursts: int
    led: int
    hosts: list[str]
    members: int


def detected(store: StoreFolder, rack: str, period: Period, definition: BurstDefinition) -> duckdb.DuckDBPyConnection:
    """Returns a connection with the tables named above. Recordings with an unknown link speed are left out, also from
    its views."""
    con = store.connect(rack, period.since_ns, period.until_ns)
    where = {"since": period.since_ns, "until": period.until_ns}
    with readable(con):
        con.execute(_RECORDINGS, {"rack": rack, "link": definition.link_bps, **where})
        con.execute(
            "CREATE TEMP VIEW recordings AS SELECT * EXCLUDE (number) FROM rack_recordings WHERE link_bps IS NOT NULL"
        )
        read_bins.sum_rack(con, period.since_ns, period.until_ns)
        # Only the tables are needed: a day may have a million bursts, so no burst becomes an object here.
        detect_bursts(con, definition, since_ns=period.since_ns, until_ns=period.until_ns)
        known = coverage.by_epoch(con, period.since_ns, period.until_ns)
        rows = [(*of, *span) for of, spans in known.items() for span in spans]
        names = ("recordings", "epochs", "starts", "ends")
        con.execute(_RECORDED, {name: [row[i] for row in rows] for i, name in enumerate(names)})
        con.execute(_CLIPPED)
        con.execute(_PARTS)
        con.execute(_SPANS)
    return con


def lanes(con: duckdb.DuckDBPyConnection, period: Period) -> list[RackLane]:
    """Returns the recordings of each lane, and its bursts, ordered by host, interface and direction."""
    recordings: dict[LaneName, list[dict[str, Any]]] = {}
    for recording in dicts(con, _FACTS, {}):
        recordings.setdefault((recording["host"], recording["interface"], recording["direction"]), []).append(recording)
    bursts = _bursts(con, with_beside=True)
    recorded: dict[str, list[Interval]] = {}
    for recording, *span in con.execute("SELECT recording_id, start_ns, end_ns FROM rack_recorded").fetchall():
        recorded.setdefault(recording, []).append((span[0], span[1]))
    links = {recording["recording_id"]: recording["link_bps"] for of in recordings.values() for recording in of}
    asked = flow_control.of_recordings(con, links, period.since_ns, period.until_ns)
    repeated = _repeated(con, recordings, recorded, period)
    lost = losses.by_capture(con)
    return [
        _lane(
            name,
            of,
            bursts.get(name),
            recorded,
            repeated.get(name),
            flow_control.summed(
                asked[recording["recording_id"]] for recording in of if recording["recording_id"] in asked
            ),
            losses.summed(lost, (recording["capture_id"] for recording in of)),
        )
        for name, of in recordings.items()
    ]


def drops(con: duckdb.DuckDBPyConnection) -> list[InterfaceDrops]:
    """Returns the interfaces whose recordings dropped packets, ordered by host and interface."""
    captures: dict[tuple[str, str], list[str]] = {}
    for host, interface, capture in con.execute(_CAPTURES).fetchall():
        captures.setdefault((host, interface), []).append(capture)
    lost = losses.by_capture(con)
    found = ((name, losses.summed(lost, of)) for name, of in captures.items())
    return [InterfaceDrops(*name, loss.dropped, loss.is_least) for name, loss in found if loss.dropped]


def received(con: duckdb.DuckDBPyConnection, found: Sequence[RackLane]) -> list[RackLane]:
    """Returns the lanes of FOUND with traffic that hosts received. Of a switch port, this is the traffic that it sent
    while the interface behind it was not recorded itself; a port without such time has no lane."""
    own = _times(con, _OWN_TIMES)
    shared = _times(con, _SHARED_TIMES) if own else {}
    bursts = _bursts(con, with_beside=False) if own else {}
    inbound = []
    for lane in found:
        if lane.name in own:
            spans = coverage.outside(lane.coverage, own[lane.name])
            sums = _sums(bursts.get(lane.name))
            sums["burst_ns"] -= coverage.length(shared.get(lane.name, ()))
            lane = replace(lane, coverage=spans, **sums)
        if lane.receiver is not None and (lane.name not in own or lane.bursts or lane.coverage):
            inbound.append(lane)
    return inbound


def _times(con: duckdb.DuckDBPyConnection, query: str) -> dict[LaneName, list[Interval]]:
    """Returns the times in QUERY of each lane: ascending, disjoint. _OWN_TIMES: for switch ports, when the interface
    behind them was recorded itself; _SHARED_TIMES: when they were then in a burst that continues beyond that time and
    therefore counts at both."""
    found: dict[LaneName, list[Interval]] = {}
    for host, interface, direction, start, end in con.execute(query).fetchall():
        found.setdefault((host, interface, direction), []).append((start, end))
    return {name: merge_intervals(spans) for name, spans in found.items()}


def _bursts(con: duckdb.DuckDBPyConnection, with_beside: bool) -> dict[LaneName, dict[str, Any]]:
    """Returns the sums over the bursts of each lane; WITH_BESIDE, including bursts of switch ports that are counted at
    their hosts."""
    rows = dicts(con, _BURSTS, {"with_beside": with_beside})
    return {(row["host"], row["interface"], row["direction"]): row for row in rows}


def _sums(burst: dict[str, Any] | None) -> dict[str, Any]:
    """Returns a row of _BURSTS as fields of RackLane; None: without bursts."""
    counts = burst or {"bursts": 0, "burst_ns": 0, "bytes": 0, "under_loss": 0}
    return {
        "bursts": counts["bursts"],
        "burst_ns": int(counts["burst_ns"]),
        "burst_bytes": int(counts["bytes"]),
        "p50_ns": counts.get("p50_ns"),
        "p90_ns": counts.get("p90_ns"),
        "p99_ns": counts.get("p99_ns"),
        "longest_ns": counts.get("longest_ns"),
        "peak_utilization": counts.get("peak_utilization"),
        "peak_bin_ns": counts.get("peak_bin_ns"),
        "fan_in": counts.get("fan_in"),
        "largest_fan_in": counts.get("largest_fan_in"),
        "patterns": {name: counts.get(name, 0) for name in PATTERNS},
        "under_loss": counts["under_loss"],
    }


def _lane(
    name: LaneName,
    recordings: Sequence[dict[str, Any]],
    burst: dict[str, Any] | None,
    recorded: Mapping[str, Sequence[Interval]],
    repeated: int | None,
    asked: FlowControl,
    loss: CaptureLoss,
) -> RackLane:
    quality = 0
    for recording in recordings:
        quality |= recording["quality"]
    fullest = max(recordings, key=lambda recording: recording["largest"] / recording["bin_ns"])
    return RackLane(
        *name,
        link_bps=max((recording["link_bps"] or 0 for recording in recordings), default=0) or None,
        bin_ns=min(recording["bin_ns"] for recording in recordings),
        coverage=coverage.covered(recorded, (recording["recording_id"] for recording in recordings)),
        packets=int(sum(recording["packets"] for recording in recordings)),
        wire_bytes=int(sum(recording["wire_bytes"] for recording in recordings)),
        busiest_bin=fullest["largest"] * 8e9 / fullest["bin_ns"],
        busiest_bin_ns=fullest["bin_ns"],
        busiest_second=(_busiest_second(recordings) if repeated is None else repeated) * 8.0,
        loss=loss,
        late=sum(recording["late"] for recording in recordings),
        losing_bins=int(sum(recording["losing_bins"] for recording in recordings)),
        quality=quality,
        cut_off=sum(not recording["complete"] for recording in recordings),
        clocks=sorted({recording["clock"] for recording in recordings if recording["clock"]}),
        is_port=any(recording["is_port"] for recording in recordings),
        receiver=next((recording["receiver"] for recording in recordings if recording["receiver"] is not None), None),
        flow_control=asked,
        **_sums(burst),
    )


def _repeated(
    con: duckdb.DuckDBPyConnection,
    lanes: Mapping[LaneName, Sequence[dict[str, Any]]],
    recorded: Mapping[str, Sequence[Interval]],
    period: Period,
) -> dict[LaneName, int]:
    """Returns the wire bytes of the fullest second of the lanes whose recordings or clock epochs overlap."""
    names: list[LaneName] = []
    rows, shared = [], []
    for name, recordings in lanes.items():
        spans = coverage.repeated(
            span for recording in recordings for span in recorded.get(recording["recording_id"], ())
        )
        if not spans:
            continue
        width = max(recording["bin_ns"] for recording in recordings)
        cells = [(start // width * width, (end - 1) // width * width) for start, end in spans]
        seconds = merge_intervals([(first // NS_PER_S, last // NS_PER_S + 1) for first, last in cells])
        shared += [(len(names), *times) for times in seconds]
        rows += [(recording["recording_id"], len(names), width) for recording in recordings]
        names.append(name)
    found = read_bins.fullest_seconds(con, rows, shared, period.since_ns, period.until_ns) if rows else {}
    return {names[number]: sent for number, sent in found.items()}


def _busiest_second(recordings: Sequence[dict[str, Any]]) -> int:
    """Returns the wire bytes of the fullest second of the clock, of recordings that do not overlap. A second in which
    one ends and another begins has the bytes of both."""
    parts: dict[int, int] = {}
    for recording in recordings:
        first, last = recording["first_second"], recording["last_second"]
        if first is None:
            continue
        parts[first] = parts.get(first, 0) + recording["of_first_second"]
        if last > first:
            parts[last] = parts.get(last, 0) + recording["of_last_second"]
    return max([int(recording["busiest_second"]) for recording in recordings] + [int(sent) for sent in parts.values()])


def cells(con: duckdb.DuckDBPyConnection, slot_ns: int) -> dict[tuple[str, str, str, int], tuple[int, int]]:
    """Returns (bursts that begin, ns in bursts) of the traffic that hosts received, by host, interface, direction and
    slot of time; their sums are those of `received`."""
    rows = con.execute(_CELLS, {"width": slot_ns, "with_beside": False}).fetchall()
    found = {(host, interface, direction, slot): (n, ns) for host, interface, direction, slot, n, ns in rows}
    for name, spans in _times(con, _SHARED_TIMES).items():
        for start, end in spans:
            for slot in range(start // slot_ns, (end - 1) // slot_ns + 1):
                bursts, ns = found[*name, slot]
                found[*name, slot] = bursts, ns - (min(end, (slot + 1) * slot_ns) - max(start, slot * slot_ns))
    return found


def durations(con: duckdb.DuckDBPyConnection) -> tuple[Quantiles, list[float], list[float]]:
    """Returns the durations of bursts that hosts received, in ns: the summary, and points of their distribution."""
    values = con.execute("SELECT duration_ns FROM bursts WHERE receiver IS NOT NULL").fetchnumpy()["duration_ns"]
    x, y = distributions.ecdf(np.asarray(values), POINTS)
    return distributions.summarize(values), [float(value) for value in x], [float(value) for value in y]


def feeders(con: duckdb.DuckDBPyConnection, limit: int) -> tuple[list[BurstSender], int, int, int]:
    """Returns the senders of most bytes in inbound bursts; the number of all senders, without those that are recorded
    together (`other`), the most that these are at once, and the bytes of all."""
    rows = dicts(con, _FEEDERS, {"limit": limit})
    found = [BurstSender(**{name: row[name] for name in BurstSender.__dataclass_fields__}) for row in rows]
    senders, others, all_bytes = (rows[0][name] if rows else 0 for name in ("feeders", "others", "all_bytes"))
    return found, senders, others, all_bytes


def feeding(con: duckdb.DuckDBPyConnection) -> dict[str, int]:
    """Returns the bytes in inbound bursts by sender, for senders that are in the fan-in of a burst."""
    return dict(con.execute(_FEEDING).fetchall())


def worst(con: duckdb.DuckDBPyConnection, limit: int) -> list[dict[str, Any]]:
    """Returns the largest bursts by bytes, in the form of `mburst bursts --json`. Shares are rounded, because sums of
    fractions in a parallel database have different last digits each time."""
    rows = [{name: row[name] for name in COLUMNS} for row in dicts(con, _WORST, {"limit": limit})]
    for row in rows:
        if row["effective_sources"] is not None:
            row["effective_sources"] = round(row["effective_sources"], 3)
        row["top_sources"] = [{**sender, "share": round(sender["share"], 6)} for sender in row["top_sources"]]
    return rows


def overlapping(con: duckdb.DuckDBPyConnection) -> int:
    """Returns how many pairs of recordings cover the same interface and time, so that their bursts count twice."""
    return len(overlapping_recordings(con))
