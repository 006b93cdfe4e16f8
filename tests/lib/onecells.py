"""Which answers state which fact of a store, by name: the cells of the table of test_one_answer.py."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable
from typing import Any

import onestore
import pytest
from oneasked import Asked, Lane, printed
from onestore import LANES, MS

from mburst.analysis.answers.compare import BurstSummary, read_bursts
from mburst.analysis.answers.host import gather
from mburst.analysis.answers.lanes import detect, lanes
from mburst.analysis.bursts.listed import find_bursts_in
from mburst.cli.bursts import _recordings
from mburst.quality import Quality

ONCE = [lane for lane in LANES if len(onestore.of_lane(lane)) == 1]  # lanes without two recordings at the same time


def by_lane(rows: list[dict[str, Any]], value: Callable[[dict[str, Any]], Any]) -> dict[Lane, Any]:
    return {(row["rack"], row["host"], row["interface"]): value(row) for row in rows}


def rack_lanes(asked: Asked, value: Callable[[dict[str, Any]], Any]) -> dict[Lane, Any]:
    return {
        (name, row["host"], row["interface"]): value(row) for name, rack in asked.racks.items() for row in rack["lanes"]
    }


def spans(given: Any) -> list[tuple[int, int]]:
    return [(int(start), int(end)) for start, end in given]


CELLS: list[Any] = []


def cell(fact: str) -> Callable[[Callable[[Asked], Any]], Callable[[Asked], Any]]:
    """Registers a function that returns an answer's value of a fact."""

    def registered(answer: Callable[[Asked], Any]) -> Callable[[Asked], Any]:
        CELLS.append(pytest.param(fact, answer, id=f"{fact}-{answer.__name__.split('_', 1)[0]}"))
        return answer

    return registered


# --- when each lane was recorded --------------------------------------------------------------------------------------


@cell("recorded")
def report_recorded(asked: Asked) -> Any:
    con = asked.store.connect()
    chosen = lanes(con)
    return {
        (one.lane.rack, one.lane.host, one.lane.interface): one.coverage
        for one in gather(con, chosen, detect(con, chosen, asked.definition))
    }


@cell("recorded")
def rack_recorded(asked: Asked) -> Any:
    return rack_lanes(asked, lambda row: spans(row["coverage"]))


@cell("recorded")
def live_recorded(asked: Asked) -> Any:
    return {lane: moment.coverage for lane, moment in asked.moments.items()}


@cell("recorded")
def sql_recorded(asked: Asked) -> Any:
    found: dict[Lane, list[tuple[int, int]]] = {}
    for row in asked.sql("SELECT * FROM coverage ORDER BY start_ns"):
        found.setdefault((row["rack"], row["host"], row["interface"]), []).append((row["start_ns"], row["end_ns"]))
    return found


@cell("recorded_ns")
def reportjson_recorded(asked: Asked) -> Any:
    return by_lane(asked.report["lanes"], lambda row: row["recorded_ns"])


def compared(asked: Asked, value: Callable[[BurstSummary], Any]) -> dict[Lane, Any]:
    with asked.store.connect() as con:
        return {
            lane: value(
                read_bursts(
                    con,
                    asked.definition,
                    hosts=[lane[1]],
                    rack=lane[0],
                    interface=lane[2],
                    direction=None,
                    since_ns=None,
                    until_ns=None,
                )
            )
            for lane in LANES
        }


@cell("recorded_ns")
def compare_recorded(asked: Asked) -> Any:
    return compared(asked, lambda bursts: bursts.recorded_ns)


@cell("recorded_ns")
def distribution_recorded(asked: Asked) -> Any:
    rows = asked.sql("distribution")
    found = {row["recording_id"]: 0 for row in rows}
    for row in rows:
        found[row["recording_id"]] += row["bins"] * row["bin_ns"]
    return {lane: found[onestore.of_lane(lane)[0].name] for lane in LANES}


@cell("recorded_once")
def bursts_recorded(asked: Asked) -> Any:
    con = asked.store.connect()
    from mburst.analysis.bursts.find import detect_bursts

    detect_bursts(con)
    spans_ns = {row["recording_id"]: row["span_ns"] for row in _recordings(con, None, None)}
    return {lane: spans_ns[onestore.of_lane(lane)[0].name] for lane in ONCE}


# --- how many bursts, and for how long --------------------------------------------------------------------------------


def counted(bursts: Any) -> dict[Lane, int]:
    found = dict.fromkeys(LANES, 0)
    for burst in bursts:
        found[burst["rack"], burst["host"], burst["interface"]] += 1
    return found


@cell("bursts")
def bursts_count(asked: Asked) -> Any:
    return counted(asked.bursts)


@cell("bursts")
def report_count(asked: Asked) -> Any:
    return by_lane(asked.report["lanes"], lambda row: len(row["bursts"]))


@cell("bursts")
def rack_count(asked: Asked) -> Any:
    return rack_lanes(asked, lambda row: row["bursts"])


@cell("bursts")
def compare_count(asked: Asked) -> Any:
    return compared(asked, lambda bursts: bursts.count)


@cell("bursts_of_all")  # of recordings that do not overlap with others
def investigate_count(asked: Asked) -> Any:
    return asked.investigation["bursts"]["stored"]


@cell("bursts")
def live_count(asked: Asked) -> Any:
    return {lane: len(moment.bursts) for lane, moment in asked.moments.items()}


@cell("bursts")
def metrics_count(asked: Asked) -> Any:
    return {lane: sum(asked.metered(lane).bursts.values()) for lane in LANES}


@cell("bursts")
def sql_count(asked: Asked) -> Any:
    return counted(asked.sql("bursts"))


@cell("burst_ns")
def report_time(asked: Asked) -> Any:
    return by_lane(asked.report["lanes"], lambda row: row["burst_ns"])


@cell("burst_ns")
def rack_time(asked: Asked) -> Any:
    return rack_lanes(asked, lambda row: row["burst_ns"])


@cell("burst_ns")
def compare_time(asked: Asked) -> Any:
    return compared(asked, lambda bursts: bursts.in_bursts_ns)


def time_in(bursts: Any) -> dict[Lane, int]:
    """Returns the time in bursts of each lane; two recordings of a lane may have the same bursts."""
    found: dict[Lane, list[tuple[int, int]]] = {lane: [] for lane in LANES}
    for burst in bursts:
        found[burst["rack"], burst["host"], burst["interface"]].append((burst["start_ns"], burst["end_ns"]))
    return {lane: sum(end - start for start, end in onestore.merged(of)) for lane, of in found.items()}


@cell("burst_ns")
def bursts_time(asked: Asked) -> Any:
    return time_in(asked.bursts)


@cell("burst_ns")
def live_time(asked: Asked) -> Any:
    return time_in(burst for moment in asked.moments.values() for burst in moment.bursts)


@cell("burst_ns")
def sql_time(asked: Asked) -> Any:
    return time_in(asked.sql("bursts"))


@cell("burst_ns")
def metrics_time(asked: Asked) -> Any:
    return {lane: asked.metered(lane).burst_ns for lane in LANES}


# --- each burst: when, how long, how much, from how many --------------------------------------------------------------


def each(bursts: Any) -> dict[Lane, Any]:
    found: dict[Lane, Any] = {lane: [] for lane in LANES}
    for burst in bursts:
        found[burst["rack"], burst["host"], burst["interface"]].append(
            (
                burst["start_ns"],
                burst["duration_ns"],
                burst["bytes"],
                burst["sources"],
                burst["fan_in"],
                round(float(burst["mean_utilization"]), 9),
                round(float(burst["peak_utilization"]), 9),
            )
        )
    return {lane: sorted(of) for lane, of in found.items()}


@cell("each_burst")
def bursts_each(asked: Asked) -> Any:
    return each(asked.bursts)


@cell("each_burst")
def csv_each(asked: Asked) -> Any:
    rows = list(csv.DictReader(printed("bursts", asked.path, "--csv").splitlines()))
    return each({name: int(value) if value.isdecimal() else value for name, value in row.items()} for row in rows)


@cell("each_burst")
def report_each(asked: Asked) -> Any:
    return each(burst for lane in asked.report["lanes"] for burst in lane["bursts"])


@cell("each_burst")
def rack_each(asked: Asked) -> Any:
    return each(burst for rack in asked.racks.values() for burst in rack["worst"])


@cell("each_burst")
def live_each(asked: Asked) -> Any:
    return each(burst for moment in asked.moments.values() for burst in moment.bursts)


@cell("each_burst")
def sql_each(asked: Asked) -> Any:
    return each(asked.sql("bursts"))


@cell("each_burst")
def files_each(asked: Asked) -> Any:
    return each(find_bursts_in(asked.store.files()).bursts.to_pylist())


@cell("fan_in")
def rack_fan_in(asked: Asked) -> Any:
    return rack_lanes(asked, lambda row: row["fan_in"])


@cell("fan_in")
def metrics_fan_in(asked: Asked) -> Any:
    of_lane = {lane: asked.metered(lane).fan_ins for lane in LANES}
    return {lane: round(of.total / sum(of.counts)) if sum(of.counts) else None for lane, of in of_lane.items()}


@cell("durations")
def report_durations(asked: Asked) -> Any:
    return by_lane(
        asked.report["lanes"],
        lambda row: tuple(row["distributions"]["duration"][level] for level in ("p50", "p90", "p99")),
    )


@cell("durations")
def rack_durations(asked: Asked) -> Any:
    return rack_lanes(asked, lambda row: tuple(row[level] for level in ("p50_ns", "p90_ns", "p99_ns")))


# --- what was recorded and lost ---------------------------------------------------------------------------------------


@cell("recordings")
def report_recordings(asked: Asked) -> Any:
    return by_lane(asked.report["lanes"], lambda row: len(row["recordings"]))


@cell("recordings")
def live_recordings(asked: Asked) -> Any:
    return {
        (lane.named("rack"), lane.named("host"), lane.named("interface")): len(lane.recordings)
        for lane in asked.live.lanes.values()
    }


@cell("recordings")
def sql_recordings(asked: Asked) -> Any:
    return by_lane(
        asked.sql("SELECT rack, host, interface, count(DISTINCT recording_id) AS n FROM recorded GROUP BY ALL"),
        lambda row: row["n"],
    )


@cell("dropped")
def report_dropped(asked: Asked) -> Any:
    return by_lane(asked.report["lanes"], lambda row: sum(run["dropped"] for run in row["recordings"]))


@cell("dropped")
def rack_dropped(asked: Asked) -> Any:
    return rack_lanes(asked, lambda row: row["loss"]["dropped"])


@cell("dropped")
def metrics_dropped(asked: Asked) -> Any:
    return {lane: asked.meter.dropped[(*lane,)] for lane in LANES}


@cell("dropped")
def sql_dropped(asked: Asked) -> Any:
    return by_lane(
        asked.sql("SELECT rack, host, interface, sum(dropped)::BIGINT AS n FROM coverage GROUP BY ALL"),
        lambda row: row["n"],
    )


@cell("dropped")
def bursts_dropped(asked: Asked) -> Any:
    """Returns the content of the line under each recording's bursts."""
    found, lane = dict.fromkeys(LANES, 0), LANES[0]
    for line in printed("bursts", asked.path).splitlines():
        if name := re.match(r"(\w+) (\w+) in: ", line):
            [lane] = [one for one in LANES if one[1:] == name.groups()]
        elif dropped_match := re.search(r"; (\d+) packets? w\w+ dropped:", line):
            found[lane] += int(dropped_match[1])
    return found


@cell("losing")
def sql_losing(asked: Asked) -> Any:
    return by_lane(
        asked.sql(
            f"SELECT rack, host, interface, count(*) FILTER (quality & {Quality.DROPS:d} <> 0) AS n "
            "FROM bins GROUP BY ALL"
        ),
        lambda row: row["n"],
    )


@cell("gap")
def bursts_gap(asked: Asked) -> Any:
    return missed(printed("bursts", asked.path))


@cell("gap")
def report_gap(asked: Asked) -> Any:
    [lane] = [row for row in asked.report["lanes"] if row["host"] == "c"]
    return missed(json.dumps(lane["statements"]))


@cell("gap")
def sql_gap(asked: Asked) -> Any:
    return {(row["packets"], (row["end_ns"] - row["start_ns"]) // MS) for row in asked.sql("FROM gaps")}


def missed(text: str) -> set[tuple[int, int]]:
    """Returns (packets, ms) of the gaps that a text mentions."""
    return {
        (int(packets), int(ms))
        for packets, ms in re.findall(r"(\d+) packets? w\w+ missed in the (\d+) ms after that", text)
    }


@cell("losing")
def report_losing(asked: Asked) -> Any:
    return by_lane(
        asked.report["lanes"], lambda row: sum(of["bins"] for of in row["quality"] if of["bit"] == Quality.DROPS)
    )


@cell("losing")
def rack_losing(asked: Asked) -> Any:
    return rack_lanes(asked, lambda row: row["losing_bins"])


@cell("losing")
def metrics_losing(asked: Asked) -> Any:
    return {lane: asked.metered(lane).bins_with_drops for lane in LANES}


@cell("losing")
def live_losing(asked: Asked) -> Any:
    return {lane: sum(end - start for start, end in moment.losing) // MS for lane, moment in asked.moments.items()}


@cell("wire_bytes")
def report_bytes(asked: Asked) -> Any:
    return by_lane(asked.report["lanes"], lambda row: row["wire_bytes"])


@cell("wire_bytes")
def rack_bytes(asked: Asked) -> Any:
    return rack_lanes(asked, lambda row: row["wire_bytes"])


@cell("wire_bytes")
def metrics_bytes(asked: Asked) -> Any:
    return {lane: asked.metered(lane).wire_bytes for lane in LANES}


@cell("wire_bytes")
def sql_bytes(asked: Asked) -> Any:
    return by_lane(
        asked.sql("SELECT rack, host, interface, sum(wire_bytes)::BIGINT AS n FROM recordings GROUP BY ALL"),
        lambda row: row["n"],
    )


@cell("utilization")
def report_mean(asked: Asked) -> Any:
    """The mean over everything that was recorded."""
    return of_once(asked.report["lanes"], lambda row: 8e9 * row["wire_bytes"] / row["recorded_ns"] / row["link_bps"])


@cell("utilization")
def sql_mean(asked: Asked) -> Any:
    return of_once(
        asked.sql("""
        SELECT rack, host, interface, utilization(sum(wire_bytes), any_value(span_ns), any_value(link_bps)) AS share
        FROM bins JOIN (SELECT recording_id, sum(end_ns - start_ns) AS span_ns FROM recorded GROUP BY ALL)
            USING (recording_id)
        JOIN (SELECT recording_id, link_bps FROM recordings) USING (recording_id)
        GROUP BY ALL"""),
        lambda row: row["share"],
    )


@cell("utilization")
def live_mean(asked: Asked) -> Any:
    return {
        lane: round(8 * float(moment.cells.total.sum()) / sum(end - start for start, end in moment.coverage), 12)
        for lane, moment in asked.moments.items()
        if lane in ONCE
    }


def of_once(rows: Any, value: Callable[[dict[str, Any]], float]) -> dict[Lane, float]:
    return {lane: round(found, 12) for lane, found in by_lane(rows, value).items() if lane in ONCE}


@cell("marks")
def sql_marks(asked: Asked) -> Any:
    return asked.sql("SELECT count(*) FILTER (ce_packets > 0) AS n FROM bins WHERE recording_id = 'r1-a0'")[0]["n"]
