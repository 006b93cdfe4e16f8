"""Which answers state which fact of data other than recordings: probes, switch queues, contention, the newest data."""

from __future__ import annotations

from typing import Any

import numpy as np
from oneasked import Asked
from onecells import by_lane, cell, rack_lanes
from onestore import ASKING, PATHS, nearest_rank

from mburst.analysis.answers.compare import read_latency
from mburst.analysis.answers.paths import ProbeSelection
from mburst.analysis.model.distributions import quantile
from mburst.api.options import newest_ns, span_of, time_of

SHARES = (0.5, 0.99, 0.999)


# --- latency ----------------------------------------------------------------------------------------------------------


def fact(measure: Any, lost: int, n: int, *levels: Any) -> tuple[Any, ...]:
    return measure, int(lost), int(n), *(None if level is None else round(level) for level in levels)


@cell("latency")
def report_latency(asked: Asked) -> Any:
    [lane, *_] = asked.report["lanes"]
    return {
        row["src"]: fact(row["measure"], row["lost"], row["measured"], row["p50_ns"], row["p99_ns"], row["p999_ns"])
        for row in lane["probes"]
    }


@cell("latency")
def reportpaths_latency(asked: Asked) -> Any:
    found = {}
    for row in asked.report["paths"]:
        of = row["distribution"]
        found[row["src"]] = fact(row["measure"], row["lost"], of["n"], of["p50_ns"], of["p99_ns"], of["p999_ns"])
    return found


@cell("latency")
def rack_latency(asked: Asked) -> Any:
    return {
        path["src"]: fact(path["measure"], of["lost"], of["n"], of["p50_ns"], of["p99_ns"], of["p999_ns"])
        for path in asked.racks["r1"]["paths"]
        for of in [path["every"]]
    }


@cell("latency")
def investigate_latency(asked: Asked) -> Any:
    return {
        path["src"]: fact(of["measure"], of["lost"], of["n"], of["p50_ns"], of["p99_ns"], of["p999_ns"])
        for path in asked.investigation["paths"]
        for of in [path["tail"]]
    }


@cell("latency")
def compare_latency(asked: Asked) -> Any:
    found = {}
    with asked.store.connect() as con:
        for src, (_, measure) in PATHS.items():
            of = read_latency(con, ProbeSelection(src=src))
            ordered = np.sort(of.values)
            found[src] = fact(measure, of.lost, of.n, *(quantile(ordered, share) for share in SHARES))
    return found


@cell("latency")
def live_latency(asked: Asked) -> Any:
    found = {}
    for of in asked.moments["r1", "a", "eth0"].latency:
        ordered = np.sort(of.largest[of.n > 0])
        found[of.src] = fact(of.measure, of.lost_probes, len(ordered), *(quantile(ordered, share) for share in SHARES))
    return found


@cell("latency")
def metrics_latency(asked: Asked) -> Any:
    found = {}
    for (src, *_), of in asked.meter.paths.items():
        p50, _, p99, p999 = (round(value * 1e9) for value in of.quantiles)
        found[src] = fact(of.measure, of.lost, of.measured, p50, p99, p999)
    return found


@cell("latency")
def sql_latency(asked: Asked) -> Any:
    return {
        row["src"]: fact(row["measure"], row["lost"], row["measured"], row["p50_ns"], row["p99_ns"], row["p999_ns"])
        for row in asked.sql("FROM path_latency")
    }


@cell("latency")
def sqlrows_latency(asked: Asked) -> Any:
    found = {}
    for src in PATHS:
        rows = asked.sql(f"SELECT measure, lost, latency_ns FROM latency WHERE src = '{src}'")
        took = sorted(row["latency_ns"] for row in rows if row["latency_ns"] is not None)
        found[src] = fact(
            rows[0]["measure"],
            sum(row["lost"] for row in rows),
            len(took),
            *(nearest_rank(took, round(1000 * share)) for share in SHARES),
        )
    return found


@cell("deciding")
def whatif_latency(asked: Asked) -> Any:
    """The recorded situation with which a change is compared."""
    main_path = asked.investigation["paths"][0]
    before = asked.investigation["what_if"]["recorded"]
    return main_path["src"], *(before[name] for name in ("p50_ns", "p99_ns", "p999_ns"))


# --- switch queues ----------------------------------------------------------------------------------------------------


@cell("queues")
def report_queues(asked: Asked) -> Any:
    return {
        (row["device"], row["port"], row["queue"]): (row["max_bytes"], row["dropped_packets"])
        for row in asked.report["lanes"][0]["queues"]
    }


@cell("queues")
def rack_queues(asked: Asked) -> Any:
    return {
        (row["device"], row["port"], row["queue"]): (row["max_bytes"], row["dropped"])
        for row in asked.racks["r1"]["queues"]
    }


@cell("queues")
def investigate_queues(asked: Asked) -> Any:
    return {
        tuple(row["queue"].replace(" queue ", " ").split()): (row["max_bytes"], row["dropped_packets"])
        for row in asked.investigation["queues"]["windows"]
    }


@cell("queues")
def live_queues(asked: Asked) -> Any:
    return {
        (of.device, of.port, of.queue): (of.max_bytes, of.dropped_packets)
        for of in asked.moments["r1", "a", "eth0"].queues
    }


@cell("queues")
def metrics_queues(asked: Asked) -> Any:
    return {name: (of.max_bytes, of.dropped) for name, of in asked.meter.queues.items()}


@cell("queues")
def sql_queues(asked: Asked) -> Any:
    rows = asked.sql("""SELECT device, port, queue, max(depth_bytes) AS deepest, sum(dropped_packets) AS n
                        FROM queue_windows GROUP BY ALL""")
    return {(row["device"], row["port"], row["queue"]): (row["deepest"], row["n"]) for row in rows}


@cell("marked")
def rack_marked(asked: Asked) -> Any:
    return {row["port"]: row["ecn_marked"] for row in asked.racks["r1"]["queues"]}


@cell("marked")
def investigate_marked(asked: Asked) -> Any:
    return {row["queue"].split()[1]: row["ecn_marked_packets"] for row in asked.investigation["queues"]["windows"]}


@cell("marked")
def sql_marked(asked: Asked) -> Any:
    return {
        row["port"]: row["n"]
        for row in asked.sql("SELECT port, sum(ecn_marked_packets)::BIGINT AS n FROM queue_windows GROUP BY port")
    }


@cell("impossible")
def reportjson_impossible(asked: Asked) -> Any:
    return {row["port"]: row["impossible"] for row in asked.report["lanes"][0]["queues"]}


@cell("impossible")
def rack_impossible(asked: Asked) -> Any:
    return {row["port"]: row["impossible"] for row in asked.racks["r1"]["queues"]}


@cell("impossible")
def metrics_impossible(asked: Asked) -> Any:
    return {port: of.impossible for (_, port, _), of in asked.meter.queues.items()}


@cell("impossible")
def live_impossible(asked: Asked) -> Any:
    return {of.port: of.impossible for of in asked.moments["r1", "a", "eth0"].queues}


@cell("impossible")
def sql_impossible(asked: Asked) -> Any:
    return {
        row["port"]: row["n"]
        for row in asked.sql(
            "SELECT port, count(*) FILTER (NOT believed) AS n FROM reported_windows('queues', 0, 9223372036854775807) "
            "GROUP BY port"
        )
    }


# --- pause frames and congestion notifications ------------------------------------------------------------------------


def flow_control(of: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(of[name] for name in (*ASKING, "asked_ns", "uncounted"))


@cell("flow_control")
def reportjson_asked(asked: Asked) -> Any:
    return by_lane(asked.report["lanes"], lambda row: flow_control(row["flow_control"]))


@cell("flow_control")
def rack_asked(asked: Asked) -> Any:
    return rack_lanes(asked, lambda row: flow_control(row["flow_control"]))


@cell("flow_control")
def sql_asked(asked: Asked) -> Any:
    rows = asked.sql(
        """SELECT rack, host, interface, total(cnp_packets) AS cnp_packets, total(pause_frames) AS pause_frames,
                  total(resume_frames) AS resume_frames, total(pause_quanta) AS pause_quanta,
                  CAST(bit_or(pause_classes) AS BIGINT) AS bits, sum(asked_ns)::BIGINT AS asked_ns,
                  count(*) FILTER (cnp_packets IS NULL) AS uncounted FROM flow_control GROUP BY ALL"""
    )
    for row in rows:
        row["pause_classes"] = [number for number in range(8) if row["bits"] >> number & 1]
    return by_lane(rows, flow_control)


# --- contention -------------------------------------------------------------------------------------------------------


def contended(found: dict[str, Any]) -> Any:
    return {name: found[name] for name in ("hosts", "bursts", "most", "contended_ns")}, round(found["share"], 9)


@cell("contention")
def rack_contention(asked: Asked) -> Any:
    return {name: contended(rack["contention"]) for name, rack in asked.racks.items()}


@cell("contention")
def sql_contention(asked: Asked) -> Any:
    return {row["rack"]: contended(row) for row in asked.sql("contention")}


@cell("contention_of_all")
def investigate_contention(asked: Asked) -> Any:
    return contended(asked.investigation["contention"])


# --- the newest data --------------------------------------------------------------------------------------------------


@cell("newest")
def bursts_newest(asked: Asked) -> Any:
    """Counts back from it, as --since of every verb does."""
    return span_of(asked.store, "0s", None)[0]


@cell("newest")
def compare_newest(asked: Asked) -> Any:
    with asked.store.connect() as con:
        return time_of(newest_ns(con), "0s")


@cell("newest")
def sql_newest(asked: Asked) -> Any:
    return max(row["ts_ns"] for row in asked.sql("FROM newest"))


@cell("newest")
def live_newest(asked: Asked) -> Any:
    return asked.live.complete_from_ns + 330 * 10**9
