"""Tables like those of the results of a fleet, with random rows, as lists of dicts and as files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from pathlib import Path
from random import Random
from typing import Any
from urllib.parse import quote

import pyarrow as pa
import pyarrow.parquet as pq

HOUR, DAY, MS = 3600 * 10**9, 86_400 * 10**9, 10**6
START = 1_795_132_800 * 10**9  # 2026-11-20
DATES = {START - 7 * DAY: "2026-11-13", START - DAY: "2026-11-19", START: "2026-11-20"}
Row = dict[str, Any]
Tables = dict[str, list[Row]]

_TEXT, _INT, _BIG, _REAL, _IS = pa.string(), pa.int32(), pa.int64(), pa.float64(), pa.bool_()
_RECORDING = {"host": _TEXT, "recording_id": _TEXT, "clock_epoch": _INT}
_LANE = {"host": _TEXT, "interface": _TEXT, "direction": _TEXT, "recording_id": _TEXT, "clock_epoch": _INT}
SUMS = (
    *("recorded_ns", "bins", "hot_bins", "pairs", "hot_hot", "cold_hot", "hot_cold", "bytes", "wire_bytes", "packets"),
    *("retransmits", "ce_packets", "losing_bins", "bursts", "burst_bytes", "burst_packets", "burst_ns"),
    *("burst_retransmits", "burst_ce_packets", "retransmits_after", "ce_packets_after"),
)
SCHEMAS: dict[str, Mapping[str, pa.DataType]] = {
    "bursts": {
        **{**_LANE, "start_ns": _BIG, "end_ns": _BIG, "duration_ns": _BIG, "bytes": _BIG, "packets": _BIG},
        **{"mean_utilization": _REAL, "peak_utilization": _REAL, "sources": _BIG, "fan_in": _BIG},
        **{"effective_sources": _REAL, "onset_spread_ns": _BIG, "pattern": _TEXT, "bin_ns": _BIG, "link_bps": _BIG},
        **dict.fromkeys(("retransmits", "ce_packets", "retransmits_after", "ce_packets_after"), _BIG),
    },
    "senders": {
        **{**_RECORDING, "start_ns": _BIG, "place": _INT, "source": _TEXT, "members": _BIG, "bytes": _BIG},
        **{"share": _REAL, "onset_ns": _BIG, "in_fan_in": _IS, "began": _IS},
    },
    "hours": {
        **{**_LANE, "hour_ns": _BIG, "link_bps": _BIG, "bin_ns": _BIG},
        **dict.fromkeys(SUMS, _BIG),
        "quality": _INT,
    },
    "histograms": {
        **{**_LANE, "hour_ns": _BIG, "link_bps": _BIG, "bin_ns": _BIG, "measure": _TEXT, "least": _BIG, "n": _BIG}
    },
    "contention": {"hour_ns": _BIG, "hosts": _INT, "bursting": _INT, "ns": _BIG},
    "coverage": {
        **{**_LANE, "link_bps": _BIG, "bin_ns": _BIG, "start_ns": _BIG, "end_ns": _BIG, "complete": _IS},
        **{"dropped": _BIG, "late": _BIG},
    },
    "queue_drops": {
        **dict.fromkeys(("host", "interface", "device", "port", "queue", "semantics"), _TEXT),
        **dict.fromkeys(("hour_ns", "windows", "lossy_windows", "drops"), _BIG),
        **dict.fromkeys(("burst_windows", "lossy_burst_windows", "burst_drops"), _BIG),
    },
    "verdicts": {
        **{"host": _TEXT, "start_ns": _BIG, "end_ns": _BIG, "interface": _TEXT, "direction": _TEXT, "cause": _TEXT},
        **{"summary": _TEXT, "has_tail": _IS, "excess_ns": _BIG, "excess_share": _REAL},
    },
    "incomplete": {"host": _TEXT, "day_ns": _BIG, "behind_ns": _BIG, "reason": _TEXT},
}
_ATTACHED = {"attached_host": _TEXT, "attached_interface": _TEXT}
PORTS = ("bursts", "hours", "histograms", "coverage")
SCHEMAS |= {f"port_{table}": {**SCHEMAS[table], **_ATTACHED} for table in PORTS}
INVENTORY = pa.schema(
    {"rack": _TEXT, "host": _TEXT, "service": _TEXT, "address": _TEXT, "added_ns": _BIG, "removed_ns": _BIG}
)
SENDERS = [f"10.0.0.{i}" for i in range(1, 9)]
SIZES = (0, 90, 1500)  # of packets
CLASSES = ((10**10, MS), (10**10, 10 * MS), (10**9, MS))


def tables(seed: int, racks: int = 2, hosts: int = 3, bursts: int = 12) -> Tables:
    """Returns random results of three days: a Friday, the day before, and the Friday before."""
    random, of_ports = Random(seed), Random(seed)
    found: Tables = {name: [] for name in SCHEMAS}
    for day_ns, date in DATES.items():
        for rack in ("r1", "r /2", "r'3", "r4")[:racks]:
            of = {"date": date, "rack": rack}
            for host in range(hosts):
                _add_host(random, found, {**of, "host": f"h{host}"}, day_ns, bursts)
            _add_ports(of_ports, found, of, day_ns, bursts, hosts)
            for hour in random.sample(range(24), 3):
                for bursting in random.sample(range(6), random.randint(1, 5)):
                    hour_ns, ns = day_ns + hour * HOUR, random.randint(1, HOUR // 8)
                    row = {"hour_ns": hour_ns, "hosts": random.randint(bursting, 6), "bursting": bursting, "ns": ns}
                    found["contention"].append({**of, **row})
            if random.random() < 0.5:
                found["incomplete"].append(_incomplete(random, of, day_ns))
            found["queue_drops"] += _queue_drops(random, of, day_ns)
            found["verdicts"] += _verdicts(random, of, day_ns)
    return found


def _incomplete(random: Random, of: Row, day_ns: int) -> Row:
    behind = {"host": random.choice(["h0", "silent"]), "behind_ns": random.choice([None, 5, HOUR]), "reason": "behind"}
    missing = {"host": None, "behind_ns": None, "reason": "damaged: bins/…"}
    return {**of, "day_ns": day_ns, **random.choice([behind, missing])}


def _verdicts(random: Random, of: Row, day_ns: int) -> list[Row]:
    """Adds verdicts of two hosts, each on none, some or all parts of the day: on one port or another, or not
    investigated."""
    found = []
    for host in ("h0", "h1"):
        parts = random.choice([1, 3])
        for part in random.sample(range(parts), random.randint(0, parts)):
            row = {"host": host, "start_ns": day_ns + part * DAY // parts, "end_ns": day_ns + (part + 1) * DAY // parts}
            port = {"interface": random.choice(["eth0", "eth1"]), "direction": random.choice(["in", "in", "out"])}
            answer = {"cause": random.choice(["bursts", "none"]), "has_tail": random.choice([True, False, None])}
            answer |= {"excess_ns": random.randint(0, 2), "excess_share": random.choice([None, 0.5, 1.0])}
            given = {**port, **answer} if random.random() < 0.8 else {}
            empty = dict.fromkeys((*port, *answer))
            found.append({**of, **row, **empty, **given, "summary": f"verdict {random.randint(0, 99)}"})
    return found


def _queue_drops(random: Random, of: Row, day_ns: int) -> list[Row]:
    """Adds some queues of two hosts, reported in one way or two, possibly with equally many windows."""
    found = []
    for host in ("h0", "h1"):
        for queue in random.sample("012", random.randint(0, 3)):
            for semantics in random.choice([("gauge",), ("event", "gauge")]):
                interface = random.choice(["", "eth0"])
                name = {"host": host, "interface": interface, "device": "tor'1", "port": f"p-{host}", "queue": queue}
                for hour in random.sample(range(24), 2):
                    counts = {name: random.randint(0, 3) for name in ("lossy_burst_windows", "lossy_other_windows")}
                    burst = counts["lossy_burst_windows"] + random.choice([0, 7])
                    other = counts["lossy_other_windows"] + random.choice([0, 9])
                    lossy = sum(counts.values())
                    sums = {"windows": burst + other, "lossy_windows": lossy, "burst_windows": burst}
                    drops = {"drops": 5 * lossy, "burst_drops": 5 * counts["lossy_burst_windows"]}
                    row = {"semantics": semantics, "hour_ns": day_ns + hour * HOUR, **sums, **drops}
                    found.append({**of, **name, **row, "lossy_burst_windows": counts["lossy_burst_windows"]})
    return found


def _add_host(random: Random, found: Tables, host: Row, day_ns: int, bursts: int) -> None:
    for direction in random.choice([("in",), ("in", "out"), ()]):
        lane = {"interface": "eth0", "direction": direction, "recording_id": f"{host['host']}-{direction}"}
        _add_lane(random, found, {**host, **lane}, day_ns, bursts, found["bursts"])


def _add_lane(random: Random, found: Tables, names: Row, day_ns: int, bursts: int, before: Sequence[Row]) -> None:
    """Adds a recording of a day. BEFORE are bursts of earlier days, which may last into it."""
    link_bps, bin_ns = random.choice(CLASSES)
    lane = {**names, "clock_epoch": 0}
    speeds = {"link_bps": link_bps, "bin_ns": bin_ns}
    busy_ns = max((row["end_ns"] for row in before if _of_lane(row, lane)), default=day_ns)
    rows = _bursts(random, lane, speeds, max(busy_ns, day_ns), random.randint(0, bursts))
    found["bursts"] += rows
    for row in rows:
        found["senders"] += _senders(random, row)
    for hour in random.sample(range(24), random.randint(1, 4)):
        hour_ns = day_ns + hour * HOUR
        found["hours"].append({**lane, "hour_ns": hour_ns, **speeds, "quality": 0, **_sums(random)})
        for least in random.sample(range(0, 101, 5), 3):
            row = {"measure": "utilization", "least": least, "n": random.randint(1, 10**6)}
            found["histograms"].append({**lane, "hour_ns": hour_ns, **speeds, **row})
    times = {**_recorded(copy(random), rows, speeds, day_ns), "complete": True, "dropped": 0, "late": 0}
    found["coverage"].append({**lane, **speeds, **times})


def _of_lane(row: Row, lane: Row) -> bool:
    return all(row[name] == lane[name] for name in ("rack", "host", "recording_id", "clock_epoch"))


def _recorded(random: Random, rows: list[Row], speeds: Row, day_ns: int) -> Row:
    """Returns the whole day, or a part that begins within the first bin of the first burst and ends within the last bin
    of the last one: bins can be wider than those that were recorded."""
    midnight = day_ns + DAY
    if not rows or random.random() < 0.5:
        return {"start_ns": day_ns, "end_ns": midnight}
    cut = random.randint(0, speeds["bin_ns"] // 2 - 1)
    end_ns = rows[-1]["end_ns"]
    return {"start_ns": rows[0]["start_ns"] + cut, "end_ns": midnight if end_ns > midnight else end_ns - cut}


def _add_ports(random: Random, found: Tables, of: Row, day_ns: int, bursts: int, hosts: int) -> None:
    """Adds ports of a switch: before hosts that were recorded or not, on that interface or another one, or before no
    host. Their collector may be behind."""
    if random.random() < 0.3:
        behind = {"host": "collector", "behind_ns": random.choice([7, HOUR]), "reason": "collector behind"}
        found["incomplete"].append({**of, "day_ns": day_ns, **behind})
    for port in range(random.randint(0, hosts + 1)):
        behind = random.choice([(None, None), *((f"h{port}", interface) for interface in ("", "eth0", "eth1"))])
        attached = dict(zip(_ATTACHED, behind, strict=True))
        for direction in random.choice([("out",), ("in", "out")]):
            lane = {"host": "tor'1", "interface": f"p{port}", "direction": direction}
            rows: Tables = {name: [] for name in SCHEMAS}
            names = {**of, **lane, "recording_id": f"p{port}-{direction}"}
            _add_lane(random, rows, names, day_ns, bursts, found["port_bursts"])
            for table in PORTS:
                found[f"port_{table}"] += [row | attached for row in rows[table]]


def _sums(random: Random) -> Row:
    """Returns an hour with possible amounts: parts are not larger than wholes, and any may be 0."""
    row = dict.fromkeys(SUMS, 0)
    row["recorded_ns"] = random.randint(1, HOUR)
    row["bins"] = random.randint(1, 10**7)
    row["pairs"] = random.randint(0, row["bins"])
    for name in ("hot_hot", "cold_hot", "hot_cold"):
        row[name] = random.choice([0, random.randint(0, row["pairs"] // 4)])
    row["losing_bins"] = random.choice([0, random.randint(0, row["bins"])])
    row["packets"] = random.choice([0, random.randint(1, 10**6)])
    row["bytes"] = row["packets"] * 700
    row["wire_bytes"] = row["bytes"] + 24 * row["packets"]
    row["burst_packets"] = random.randint(0, row["packets"])
    row["burst_bytes"] = row["burst_packets"] * random.randint(60, 700)
    row["bursts"], row["retransmits"] = random.randint(0, 50), random.choice([0, random.randint(0, 99)])
    row["burst_ns"] = random.randint(0, row["recorded_ns"])
    row["ce_packets"] = random.choice([0, random.randint(0, 99)])
    for name in ("retransmits", "ce_packets"):
        row[f"burst_{name}"] = random.randint(0, row[name])
        row[f"{name}_after"] = random.randint(0, row[name] - row[f"burst_{name}"])
    if row["packets"] % 5 == 4:  # not counted
        row |= dict.fromkeys(("retransmits", "burst_retransmits", "retransmits_after"))
    return row


def _bursts(random: Random, lane: Row, speeds: Row, begin_ns: int, n: int) -> list[Row]:
    """Returns N bursts of a day, from BEGIN_NS on. The last one may begin at its end and last into the next day."""
    midnight = begin_ns - begin_ns % DAY + DAY
    edges = copy(random)  # what is chosen at midnight changes nothing else
    found, at = [], begin_ns + random.randint(0, 100) * edges.choice([0, 1]) * speeds["bin_ns"]
    for number in range(n):
        at += random.randint(1, random.choice([3, 500, 4_000_000 // (speeds["bin_ns"] // MS)])) * speeds["bin_ns"]
        duration = random.choice([1, 2, 9, 10, 120]) * speeds["bin_ns"]
        if number == n - 1 and edges.random() < 0.5:
            at = max(at, midnight - edges.randint(1, duration // speeds["bin_ns"]) * speeds["bin_ns"])
        if at >= midnight:
            break
        fan_in = random.choice([0, 1, 3, 3, 40, 64])
        row = dict.fromkeys(SCHEMAS["bursts"], 0)
        effective = random.choice([None, 1.0, 2.5, fan_in / 2])
        pattern = random.choice(["incast", "single-source", "unknown"])
        loss = {"retransmits": random.choice([0, 0, 3]), "retransmits_after": random.choice([0, 0, 1])}
        if at // speeds["bin_ns"] % 5 == 4:
            loss = dict.fromkeys(loss, None)  # not counted
        times = {"start_ns": at, "end_ns": at + duration, "duration_ns": duration}
        more = {"fan_in": fan_in, "effective_sources": effective, "pattern": pattern}
        found.append({**row, **lane, **speeds, **times, **more, **loss})
        at += duration
    return found


def _senders(random: Random, burst: Row) -> list[Row]:
    """Returns the senders of a burst, the largest first; some have equal bytes."""
    of = {name: burst[name] for name in ("date", "rack", "host", "recording_id", "clock_epoch", "start_ns")}
    sources = [*random.sample(SENDERS, random.randint(0, 4)), "other"]
    sizes = sorted((random.choice([90, 1500, random.randint(1, 10**6)]) for _ in sources), reverse=True)
    rest = {"share": 0.1, "onset_ns": 0, "began": False}
    return [
        {
            **of,
            "place": place,
            "source": source,
            "members": 1 if source != "other" else 7,
            "bytes": sent,
            "in_fan_in": random.random() < 0.7,
            **rest,
        }
        for place, (source, sent) in enumerate(zip(sources, sizes, strict=True), 1)
    ]


def arrow(table: str, rows: list[Row], located: bool = False) -> pa.Table:
    """Returns ROWS as Arrow; with `date` and `rack` if LOCATED (files have these only in their path)."""
    place = {"date": _TEXT, "rack": _TEXT} if located else {}
    return pa.Table.from_pylist(rows, pa.schema({**place, **SCHEMAS[table]}))


def write(found: Tables, folder: Path) -> None:
    """Writes FOUND as a folder of results: a file for each table, date and rack."""
    for table, rows in found.items():
        for date, rack in {(row["date"], row["rack"]) for row in rows}:
            path = folder / table / f"date={date}" / f"rack={quote(rack, safe='')}" / "rack.parquet"
            path.parent.mkdir(parents=True, exist_ok=True)
            mine = [row for row in rows if (row["date"], row["rack"]) == (date, rack)]
            pq.write_table(arrow(table, mine), path)
