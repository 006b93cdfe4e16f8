"""One store, one answer: every verb that says when, how often, how long, how full or how late says the same.

A cell of the table is a fact and who is asked for it. What is true comes from plain arithmetic in onestore.py.
"""

from __future__ import annotations

import json
from argparse import Namespace
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onestore
import pytest
from oneasked import WHOLE, Asked, Lane, printed
from onestore import LANES, MS, PATHS, PROBES, QUEUES, START, nearest_rank

from mburst.analysis.bursts import THRESHOLD
from mburst.analysis.compare import read_bursts, read_latency
from mburst.analysis.distributions import quantile
from mburst.analysis.live_store import LiveStore
from mburst.analysis.paths import Selection
from mburst.analysis.report_data import gather, judge, lanes
from mburst.api.options import time_of
from mburst.cli.bursts import _judged
from mburst.cli.what_if import wanted
from mburst.sql import text
from mburst.units import parse_size

SHARES = (0.5, 0.99, 0.999)
ONCE = [lane for lane in LANES if len(onestore.of_lane(lane)) == 1]  # that no two recordings cover at once


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Asked]:
    folder = tmp_path_factory.mktemp("one")
    asked = Asked(onestore.rich(folder / "store"), folder)
    yield asked
    for name in ("live", "meter"):
        if name in vars(asked):
            vars(asked)[name].close()


def by_lane(rows: list[dict[str, Any]], value: Callable[[dict[str, Any]], Any]) -> dict[Lane, Any]:
    return {(row["rack"], row["host"], row["interface"]): value(row) for row in rows}


def rack_lanes(asked: Asked, value: Callable[[dict[str, Any]], Any]) -> dict[Lane, Any]:
    return {(name, row["host"], row["interface"]): value(row) for name, rack in asked.racks.items()
            for row in rack["lanes"]}


def spans(given: Any) -> list[tuple[int, int]]:
    return [(int(start), int(end)) for start, end in given]


CELLS: list[Any] = []


def cell(fact: str) -> Callable[[Callable[[Asked], Any]], Callable[[Asked], Any]]:
    """Registers who answers a fact."""
    def registered(answer: Callable[[Asked], Any]) -> Callable[[Asked], Any]:
        CELLS.append(pytest.param(fact, answer, id=f"{fact}-{answer.__name__.split('_', 1)[0]}"))
        return answer
    return registered


# --- when each lane was recorded --------------------------------------------------------------------------------------


@cell("recorded")
def report_recorded(asked: Asked) -> Any:
    con = asked.store.connect()
    chosen = lanes(con)
    return {(one.lane.rack, one.lane.host, one.lane.interface): one.coverage
            for one in gather(con, chosen, judge(con, chosen, asked.definition))}


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


@cell("recorded_ns")
def compare_recorded(asked: Asked) -> Any:
    with asked.store.connect() as con:
        return {lane: read_bursts(con, asked.definition, hosts=[lane[1]], rack=lane[0], interface=lane[2],
                                  direction=None, since_ns=None, until_ns=None).recorded_ns for lane in LANES}


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
    from mburst.analysis.bursts import judge_bursts

    judge_bursts(con)
    told = {row["recording_id"]: row["span_ns"] for row in _judged(con, None, None)}
    return {lane: told[onestore.of_lane(lane)[0].name] for lane in ONCE}


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
    with asked.store.connect() as con:
        return {lane: read_bursts(con, asked.definition, hosts=[lane[1]], rack=lane[0], interface=lane[2],
                                  direction=None, since_ns=None, until_ns=None).count for lane in LANES}


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
    with asked.store.connect() as con:
        return {lane: read_bursts(con, asked.definition, hosts=[lane[1]], rack=lane[0], interface=lane[2],
                                  direction=None, since_ns=None, until_ns=None).in_bursts_ns for lane in LANES}


@cell("burst_ns")
def metrics_time(asked: Asked) -> Any:
    return {lane: asked.metered(lane).burst_ns for lane in LANES}


# --- latency ----------------------------------------------------------------------------------------------------------


def told(measure: Any, lost: int, n: int, *levels: Any) -> tuple[Any, ...]:
    return measure, int(lost), int(n), *(None if level is None else round(level) for level in levels)


@cell("latency")
def report_latency(asked: Asked) -> Any:
    [lane, *_] = asked.report["lanes"]
    return {row["src"]: told(row["measure"], row["lost"], row["measured"], row["p50_ns"], row["p99_ns"], row["p999_ns"])
            for row in lane["probes"]}


@cell("latency")
def reportpaths_latency(asked: Asked) -> Any:
    found = {}
    for row in asked.report["paths"]:
        of = row["judged"]
        found[row["src"]] = told(row["measure"], row["lost"], of["n"], of["p50_ns"], of["p99_ns"], of["p999_ns"])
    return found


@cell("latency")
def rack_latency(asked: Asked) -> Any:
    return {path["src"]: told(path["measure"], of["lost"], of["n"], of["p50_ns"], of["p99_ns"], of["p999_ns"])
            for path in asked.racks["r1"]["paths"] for of in [path["every"]]}


@cell("latency")
def investigate_latency(asked: Asked) -> Any:
    return {path["src"]: told(of["judged"], of["lost"], of["n"], of["p50_ns"], of["p99_ns"], of["p999_ns"])
            for path in asked.investigation["paths"] for of in [path["tail"]]}


@cell("latency")
def compare_latency(asked: Asked) -> Any:
    found = {}
    with asked.store.connect() as con:
        for src, (_, measure) in PATHS.items():
            of = read_latency(con, Selection(src=src))
            ordered = np.sort(of.values)
            found[src] = told(measure, of.lost, of.n, *(quantile(ordered, share) for share in SHARES))
    return found


@cell("latency")
def live_latency(asked: Asked) -> Any:
    found = {}
    for of in asked.moments["r1", "a", "eth0"].latency:
        ordered = np.sort(of.largest[of.n > 0])
        found[of.src] = told(of.measure, of.lost_probes, len(ordered), *(quantile(ordered, share) for share in SHARES))
    return found


@cell("latency")
def metrics_latency(asked: Asked) -> Any:
    found = {}
    for (src, *_), of in asked.meter.paths.items():
        p50, _, p99, p999 = (round(value * 1e9) for value in of.quantiles)
        found[src] = told(of.measure, of.lost, of.measured, p50, p99, p999)
    return found


@cell("latency")
def sql_latency(asked: Asked) -> Any:
    return {row["src"]: told(row["measure"], row["lost"], row["measured"], row["p50_ns"], row["p99_ns"], row["p999_ns"])
            for row in asked.sql("FROM path_latency")}


@cell("latency")
def sqlrows_latency(asked: Asked) -> Any:
    found = {}
    for src in PATHS:
        rows = asked.sql(f"SELECT measure, lost, latency_ns FROM latency WHERE src = '{src}'")
        took = sorted(row["latency_ns"] for row in rows if row["latency_ns"] is not None)
        found[src] = told(rows[0]["measure"], sum(row["lost"] for row in rows), len(took),
                          *(nearest_rank(took, round(1000 * share)) for share in SHARES))
    return found


@cell("deciding")
def whatif_latency(asked: Asked) -> Any:
    """The recorded situation that a change is held against."""
    main_path = asked.investigation["paths"][0]
    before = asked.investigation["what_if"]["recorded"]
    return main_path["src"], *(before[name] for name in ("p50_ns", "p99_ns", "p999_ns"))


# --- switch queues ----------------------------------------------------------------------------------------------------


@cell("queues")
def report_queues(asked: Asked) -> Any:
    return {(row["device"], row["port"], row["queue"]): (row["max_bytes"], row["dropped_packets"] or 0)
            for row in asked.report["lanes"][0]["queues"]}


@cell("queues")
def rack_queues(asked: Asked) -> Any:
    return {(row["device"], row["port"], row["queue"]): (row["max_bytes"], row["dropped"])
            for row in asked.racks["r1"]["queues"]}


@cell("queues")
def investigate_queues(asked: Asked) -> Any:
    return {tuple(row["queue"].replace(" queue ", " ").split()): (row["max_bytes"], row["dropped_packets"] or 0)
            for row in asked.investigation["queues"]["windows"]}


@cell("queues")
def live_queues(asked: Asked) -> Any:
    return {(of.device, of.port, of.queue): (of.max_bytes, of.dropped_packets)
            for of in asked.moments["r1", "a", "eth0"].queues}


@cell("queues")
def metrics_queues(asked: Asked) -> Any:
    return {name: (of.max_bytes, of.dropped) for name, of in asked.meter.queues.items()}


@cell("queues")
def sql_queues(asked: Asked) -> Any:
    rows = asked.sql("""SELECT device, port, queue, max(depth_bytes) AS deepest, coalesce(sum(dropped_packets), 0) AS n
                        FROM queue_windows GROUP BY ALL""")
    return {(row["device"], row["port"], row["queue"]): (row["deepest"], row["n"]) for row in rows}


@cell("impossible")
def reportjson_impossible(asked: Asked) -> Any:
    return {row["port"]: row["impossible"] for row in asked.report["lanes"][0]["queues"]}


@cell("impossible")
def rack_impossible(asked: Asked) -> Any:
    return {row["port"]: row["impossible"] for row in asked.racks["r1"]["queues"]}


@cell("impossible")
def metrics_impossible(asked: Asked) -> Any:
    return {port: of.impossible for (_, port, _), of in asked.meter.queues.items()}


# --- contention -------------------------------------------------------------------------------------------------------


@cell("contention")
def rack_contention(asked: Asked) -> Any:
    found = asked.racks["r1"]["contention"]
    return {name: found[name] for name in ("hosts", "bursts", "most", "contended_ns")}, round(found["share"], 9)


@cell("contention")
def investigate_contention(asked: Asked) -> Any:
    found = asked.investigation["contention"]
    return {name: found[name] for name in ("hosts", "bursts", "most", "contended_ns")}, round(found["share"], 9)


@cell("contention")
def sql_contention(asked: Asked) -> Any:
    [found] = [row for row in asked.sql("contention") if row["rack"] == "r1"]
    return {name: found[name] for name in ("hosts", "bursts", "most", "contended_ns")}, round(found["share"], 9)


# --- the newest data --------------------------------------------------------------------------------------------------


@cell("newest")
def compare_newest(asked: Asked) -> Any:
    with asked.store.connect() as con:
        return time_of(con, "0s")


@cell("newest")
def sql_newest(asked: Asked) -> Any:
    return max(row["ts_ns"] for row in asked.sql("FROM newest"))


@cell("newest")
def live_newest(asked: Asked) -> Any:
    return asked.live.complete_from_ns + 330 * 10**9


TRUTH: dict[str, Callable[[], Any]] = {
    "recorded": lambda: {lane: onestore.merged([one.span for one in onestore.of_lane(lane)]) for lane in LANES},
    "recorded_ns": lambda: {lane: sum(end - start for start, end in onestore.merged(
        [one.span for one in onestore.of_lane(lane)])) for lane in LANES},
    "recorded_once": lambda: {lane: end - start for lane in ONCE for start, end in [onestore.of_lane(lane)[0].span]},
    "bursts": lambda: {lane: sum(len(one.bursts) for one in onestore.of_lane(lane)) for lane in LANES},
    "burst_ns": lambda: {lane: sum(end - start for start, end in onestore.merged(
        [span for one in onestore.of_lane(lane) for span in one.burst_spans])) for lane in LANES},
    "latency": lambda: {src: latency_of(src) for src in PATHS},
    "deciding": lambda: ("api-1", *latency_of("api-1")[3:]),
    "queues": lambda: QUEUES,
    "impossible": lambda: {"swp1": 1, "swp2": 0},
    "contention": lambda: ({"hosts": 2, "bursts": 3, "most": 2, "contended_ns": 5 * MS}, round(2 / 3, 9)),
    "newest": lambda: max(START + 1000 * MS, START + (PROBES - 1) * MS // 2 + 1000),
}


def latency_of(src: str) -> tuple[Any, ...]:
    took = onestore.latencies(src)
    return told(PATHS[src][1], PROBES // 100, len(took), *(nearest_rank(took, round(1000 * share)) for share in SHARES))


@pytest.mark.parametrize(("fact", "answer"), CELLS)
def test_every_answer_is_the_same(asked: Asked, fact: str, answer: Callable[[Asked], Any]) -> None:
    assert answer(asked) == TRUTH[fact]()


def test_the_defaults_of_a_burst_are_those_of_the_query(asked: Asked) -> None:
    with asked.store.connect() as con:
        con.execute(text("bursts"))
        lanes = con.execute("SELECT stored_ns, join_ns, hot_bytes, least_bytes($1, bin_ns, link_bps) FROM lanes",
                            [THRESHOLD]).fetchall()
    assert lanes
    assert all(join_ns == asked.definition.joined_ns(stored_ns) for stored_ns, join_ns, _, _ in lanes)
    assert all(hot == least for _, _, hot, least in lanes)


def test_a_rack_up_to_its_newest_data_has_its_last_bins(asked: Asked, tmp_path: Path) -> None:
    printed("report", asked.path, "--rack", "r1", "--since", WHOLE["since"], "-o", tmp_path)
    [facts] = tmp_path.glob("rack-*.json")
    told = {row["host"] + row["interface"]: spans(row["coverage"]) for row in json.loads(facts.read_text())["lanes"]}
    assert told == {lane[1] + lane[2]: spans for lane, spans in TRUTH["recorded"]().items() if lane[0] == "r1"}


# --- a store without bins ---------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def unrecorded(tmp_path_factory: pytest.TempPathFactory) -> Asked:
    folder = tmp_path_factory.mktemp("unrecorded")
    return Asked(onestore.without_bins(folder / "store"), folder)


def test_a_duration_counts_from_the_newest_data_of_any_kind(unrecorded: Asked, tmp_path: Path) -> None:
    printed("report", unrecorded.path, "-o", tmp_path, "--since", "10m")
    [page] = tmp_path.glob("*.json")
    assert [path["sent"] for path in json.loads(page.read_text())["paths"]] == [200]
    found = json.loads(printed("investigate", unrecorded.path, "--json", "--since", "10m"))
    assert [path["tail"]["n"] for path in found["paths"]] == [200]
    both = json.loads(printed("compare", unrecorded.path, unrecorded.path, "--both", "since=10m", "--json"))
    assert both["a"]["n"] == both["b"]["n"] == 200
    live = LiveStore(unrecorded.store)
    assert [len(series.times) for series in live.probes.series.values()] == [200]
    live.close()


@pytest.mark.parametrize(("text", "size"), [("1GB", 10**9), ("4MB", 4 * 10**6), ("500kB", 500_000), ("64MiB", 2**26),
                                            ("1GiB", 2**30), ("65536", 65536)])
def test_a_size_is_the_same_for_every_option(text: str, size: int) -> None:
    assert parse_size(text) == size
    [change] = wanted(Namespace(link=None, priority=False, stagger=None, fan_in=None, buffer=text))
    assert change.buffer_bytes == size


# --- the Python API ---------------------------------------------------------------------------------------------------


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
    for lane, row in api_lanes(asked.api.utilization().select(
            ["rack", "host", "interface", "recorded_ns"]).to_pylist()):
        if lane in found:
            found[lane] += row["recorded_ns"]
    return found


@cell("bursts")
def api_count(asked: Asked) -> Any:
    return counted(asked.api.bursts().to_pylist())


@cell("burst_ns")
def api_time(asked: Asked) -> Any:
    spans_of: dict[Lane, list[tuple[int, int]]] = {lane: [] for lane in LANES}
    for lane, row in api_lanes(asked.api.bursts().to_pylist()):
        spans_of[lane].append((row["start_ns"], row["end_ns"]))
    return {lane: sum(end - start for start, end in onestore.merged(found)) for lane, found in spans_of.items()}


@cell("latency")
def api_latency(asked: Asked) -> Any:
    return {row["src"]: told(row["measure"], row["lost"], row["measured"], row["p50_ns"], row["p99_ns"], row["p999_ns"])
            for row in asked.api.latency().to_pylist()}


@cell("latency")
def apirows_latency(asked: Asked) -> Any:
    found = {}
    for src in PATHS:
        rows = asked.api.probes(src=src).to_pylist()
        took = sorted(row["latency_ns"] for row in rows if row["latency_ns"] is not None)
        found[src] = told(rows[0]["measure"], sum(row["lost"] for row in rows), len(took),
                          *(nearest_rank(took, round(1000 * share)) for share in SHARES))
    return found


@cell("deciding")
def api_deciding(asked: Asked) -> Any:
    before = asked.api.what_if(link="10G").to_dict()["recorded"]
    path = asked.api.investigate().findings[0].scene.probes
    return path.src, *(before[name] for name in ("p50_ns", "p99_ns", "p999_ns"))


@cell("queues")
def api_queues(asked: Asked) -> Any:
    return {(row["device"], row["port"], row["queue"]): (row["max_bytes"], row["dropped_packets"] or 0)
            for row in asked.api.queues().to_pylist()}


@cell("queues")
def apirows_queues(asked: Asked) -> Any:
    found: dict[tuple[str, str, str], tuple[int, int]] = {}
    for row in asked.api.queue_windows().to_pylist():
        name = row["device"], row["port"], row["queue"]
        deepest, dropped = found.get(name, (0, 0))
        found[name] = max(deepest, row["depth_bytes"]), dropped + (row["dropped_packets"] or 0)
    return found


@cell("impossible")
def api_impossible(asked: Asked) -> Any:
    return {row["port"]: row["impossible"] for row in asked.api.queues().to_pylist()}


@cell("contention")
def api_contention(asked: Asked) -> Any:
    [found] = asked.api.contention(rack="r1").to_pylist()
    return {name: found[name] for name in ("hosts", "bursts", "most", "contended_ns")}, round(found["share"], 9)


@cell("newest")
def api_newest(asked: Asked) -> Any:
    return asked.api.newest_ns
