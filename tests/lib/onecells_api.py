"""Which answers of the Python API state which fact."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from oneasked import Asked, Lane
from onecells import ONCE, by_lane, cell, counted, each, time_in
from onecells_beside import SHARES, contended, fact
from onestore import LANES, MS, PATHS, nearest_rank


def api_lanes(rows: list[dict[str, Any]]) -> Iterator[tuple[Lane, dict[str, Any]]]:
    for row in rows:
        yield (row["rack"], row["host"], row["interface"]), row


@cell("recorded")
def api_recorded(asked: Asked) -> Any:
    found: dict[Lane, list[tuple[int, int]]] = {}
    for lane, row in api_lanes(asked.api.coverage().to_pylist()):
        found.setdefault(lane, []).append((row["start_ns"], row["end_ns"]))
    return found


@cell("recorded_ns")
def api_recorded_ns(asked: Asked) -> Any:
    return by_lane(asked.api.report().to_dict()["lanes"], lambda row: row["recorded_ns"])


@cell("recorded_once")
def api_bins(asked: Asked) -> Any:
    found = dict.fromkeys(ONCE, 0)
    for lane, row in api_lanes(
        asked.api.utilization().select(["rack", "host", "interface", "recorded_ns"]).to_pylist()
    ):
        if lane in found:
            found[lane] += row["recorded_ns"]
    return found


@cell("utilization")
def api_mean(asked: Asked) -> Any:
    filled: dict[Lane, list[int]] = {lane: [0, 0] for lane in ONCE}
    for lane, row in api_lanes(asked.api.utilization(bin="10ms").to_pylist()):
        if lane in filled:
            filled[lane][0] += row["wire_bytes"]
            filled[lane][1] += row["recorded_ns"]
    return {lane: round(8 * wire / span, 12) for lane, (wire, span) in filled.items()}


@cell("marks")
def api_marks(asked: Asked) -> Any:
    """The bins with marks that the investigation compares with the probes."""
    return len(asked.api.investigate().findings[0].scene.crossings[0].port.marked)


@cell("recordings")
def api_recordings(asked: Asked) -> Any:
    found = dict.fromkeys(LANES, 0)
    for lane, _ in api_lanes(asked.api.recordings().to_pylist()):
        found[lane] += 1
    return found


@cell("dropped")
def api_dropped(asked: Asked) -> Any:
    found = dict.fromkeys(LANES, 0)
    for lane, row in api_lanes(asked.api.recordings().to_pylist()):
        found[lane] += row["dropped"]
    return found


@cell("gap")
def api_gap(asked: Asked) -> Any:
    return {(row["packets"], (row["end_ns"] - row["start_ns"]) // MS) for row in asked.api.sql("FROM gaps").to_pylist()}


@cell("wire_bytes")
def api_bytes(asked: Asked) -> Any:
    found = dict.fromkeys(LANES, 0)
    for lane, row in api_lanes(asked.api.utilization(bin="1ms").to_pylist()):
        found[lane] += row["wire_bytes"]
    return found


@cell("bursts_of_all")
def api_count_of_all(asked: Asked) -> Any:
    return len(asked.api.investigate().bursts)


@cell("each_burst")
def api_each(asked: Asked) -> Any:
    return each(asked.api.bursts().to_pylist())


@cell("marked")
def api_marked(asked: Asked) -> Any:
    return {row["port"]: row["ecn_marked_packets"] for row in asked.api.queues().to_pylist()}


@cell("bursts")
def api_count(asked: Asked) -> Any:
    return counted(asked.api.bursts().to_pylist())


@cell("burst_ns")
def api_time(asked: Asked) -> Any:
    return time_in(asked.api.bursts().to_pylist())


@cell("latency")
def api_latency(asked: Asked) -> Any:
    return {
        row["src"]: fact(row["measure"], row["lost"], row["measured"], row["p50_ns"], row["p99_ns"], row["p999_ns"])
        for row in asked.api.latency().to_pylist()
    }


@cell("latency")
def apirows_latency(asked: Asked) -> Any:
    found = {}
    for src in PATHS:
        rows = asked.api.probes(src=src).to_pylist()
        took = sorted(row["latency_ns"] for row in rows if row["latency_ns"] is not None)
        found[src] = fact(
            rows[0]["measure"],
            sum(row["lost"] for row in rows),
            len(took),
            *(nearest_rank(took, round(1000 * share)) for share in SHARES),
        )
    return found


@cell("deciding")
def api_deciding(asked: Asked) -> Any:
    before = asked.api.what_if(link="10G").to_dict()["recorded"]
    path = asked.api.investigate().findings[0].scene.probes
    return path.src, *(before[name] for name in ("p50_ns", "p99_ns", "p999_ns"))


@cell("queues")
def api_queues(asked: Asked) -> Any:
    return {
        (row["device"], row["port"], row["queue"]): (row["max_bytes"], row["dropped_packets"])
        for row in asked.api.queues().to_pylist()
    }


@cell("queues")
def apirows_queues(asked: Asked) -> Any:
    found: dict[tuple[str, str, str], tuple[int, int | None]] = {}
    for row in asked.api.queue_windows().to_pylist():
        name = row["device"], row["port"], row["queue"]
        deepest, dropped = found.get(name, (0, None))
        known = [count for count in (dropped, row["dropped_packets"]) if count is not None]
        found[name] = max(deepest, row["depth_bytes"]), sum(known) if known else None
    return found


@cell("impossible")
def api_impossible(asked: Asked) -> Any:
    return {row["port"]: row["impossible"] for row in asked.api.queues().to_pylist()}


@cell("contention")
def api_contention(asked: Asked) -> Any:
    return {row["rack"]: contended(row) for row in asked.api.contention().to_pylist()}


@cell("newest")
def api_newest(asked: Asked) -> Any:
    return asked.api.newest_ns
