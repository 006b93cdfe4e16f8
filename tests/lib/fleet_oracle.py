"""The results of sql/queries/fleet/, computed row by row in Python from tables made by fleettables.py."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from fractions import Fraction
from itertools import groupby, pairwise
from typing import Any

from exact_statistics import known_rank, rank, risk_interval, wilson
from fleettables import DAY, HOUR, Row, Tables

WEEK = 7 * DAY
Span = tuple[int, int]
Answer = list[tuple[Any, ...]]


def grouped(rows: Iterable[Row], key: Callable[[Row], Any]) -> list[tuple[Any, list[Row]]]:
    """Returns rows grouped by KEY, in order of KEY."""
    return [(of, list(found)) for of, found in groupby(sorted(rows, key=key), key)]


def total(rows: Iterable[Row], name: str) -> int:
    """Returns the sum of a column."""
    return sum(row[name] for row in rows)


def divided(part: float, whole: float) -> float | None:
    """Returns PART / WHOLE; None if WHOLE is 0."""
    return part / whole if whole else None


def lateness(row: Row) -> tuple[Any, ...]:
    """Returns the key that orders verdicts, most lateness first."""
    excess_ns = -1 if row["excess_ns"] is None else row["excess_ns"]
    tail = {True: 0, None: 1, False: 2}[row["has_tail"]]
    return (tail, -excess_ns, row["host"], row["start_ns"], row["rack"])


def _overlap_ns(listed: Row, since: int, until: int) -> int:
    """For how long of a span the inventory expects a host."""
    begin, end = (listed[of] for of in ("added_ns", "removed_ns"))
    return max(min(until if end is None else end, until) - max(since if begin is None else begin, since), 0)


def _listed_ns(listed: Row, date: str) -> int:
    return _overlap_ns(listed, _start_of(date), _start_of(date) + DAY)


def _start_of(date: str) -> int:
    return int(datetime.fromisoformat(f"{date}T00:00+00:00").timestamp()) * 10**9


def _recorded_ns(hours: list[Row]) -> int:
    """The recorded time of hosts: in each hour, that of the interface and direction recorded for longest."""
    recorded = 0
    for _, rows in grouped(hours, lambda row: (row["host"], row["hour_ns"])):
        lanes = grouped(rows, lambda row: (row["interface"], row["direction"]))
        recorded += max(min(total(found, "recorded_ns"), HOUR) for _, found in lanes)
    return recorded


class Fleet:
    """TABLES over SPAN, with an inventory of rows of rack, host, service, address, added_ns and removed_ns."""

    def __init__(self, tables: Tables, span: Span, inventory: Sequence[Row]) -> None:
        self.tables, self.inventory = tables, inventory
        self.since, self.until = span

    def _asked(self, table: str, column: str, back: int = 0) -> list[Row]:
        return [row for row in self.tables[table] if self.since - back <= row[column] < self.until - back]

    def _class(self, row: Row) -> tuple[Any, ...]:
        named = [of["service"] for of in self.inventory if (of["rack"], of["host"]) == (row["rack"], row["host"])]
        return (named[0] if named and named[0] else "", row["direction"], row["link_bps"], row["bin_ns"])

    def coverage(self) -> Answer:
        hours, incomplete = self._asked("hours", "hour_ns"), self._asked("incomplete", "day_ns")
        ports = self._asked("port_hours", "hour_ns")
        dates = {row["date"] for row in hours + incomplete + ports}
        expected = {(row["date"], row["rack"], row["host"]) for row in hours}
        hosts = [row for row in incomplete if row["host"] and row["reason"] != "collector behind"]
        expected |= {(row["date"], row["rack"], row["host"]) for row in hosts}
        expected |= {(date, of["rack"], of["host"]) for date in dates for of in self.inventory if _listed_ns(of, date)}
        switches, hosts = ({(row["rack"], row["host"]) for row in self.tables[of]} for of in ("port_hours", "hours"))
        expected = {of for of in expected if of[1:] not in switches - hosts}
        racks = {of[:2] for of in expected} | {(row["date"], row["rack"]) for row in incomplete + ports}
        return [self._covered(of, expected, hours, incomplete) for of in sorted(racks)]

    def _covered(self, of: Any, expected: Any, hours: list[Row], incomplete: list[Row]) -> tuple[Any, ...]:
        hosts = {host for *place, host in expected if tuple(place) == of}
        mine = [row for row in hours if (row["date"], row["rack"]) == of]
        recorded = _recorded_ns(mine)
        lacking = [row for row in incomplete if (row["date"], row["rack"]) == of]
        behind = [DAY if row["behind_ns"] is None else row["behind_ns"] for row in lacking if row["host"]]
        seen = {row["host"] for row in mine}
        losing = divided(total(mine, "losing_bins"), total(mine, "bins"))
        expected_ns = sum(self._expected_ns(of, host, mine) for host in hosts)
        share = recorded / expected_ns if hosts else 0.0
        missing = sum(row["host"] is None for row in lacking)
        return (*of, len(hosts), len(seen), expected_ns, share, losing, max(behind, default=0), missing)

    def _expected_ns(self, of: Any, host: str, hours: list[Row]) -> int:
        """For how long a host is expected on a date: as the inventory says, but no shorter than it recorded. One that
        was removed before is for as long as it recorded, if that is no longer than 20 minutes after it."""
        listed = [row for row in self.inventory if (row["rack"], row["host"]) == (of[1], host)]
        recorded, begin = _recorded_ns([row for row in hours if row["host"] == host]), _start_of(of[0])
        removed_ns = next((row["removed_ns"] for row in listed), None)
        if removed_ns is not None and removed_ns <= begin < begin + recorded <= removed_ns + 1200 * 10**9:
            return recorded
        expected = sum(_listed_ns(row, of[0]) for row in listed)
        return max(expected or DAY, recorded)

    def worst_hosts(self) -> Answer:
        now, before = self._rates(0), self._rates(WEEK)
        placed, before_placed = _places(now), _places(before)
        answer = []
        for host, (per_hour, share, retransmits) in now.items():
            bursts = [row for row in self._received() if (row["rack"], row["host"]) == host]
            p99 = known_rank((row["duration_ns"] for row in bursts), Fraction(99, 100))
            fan_in = max((row["fan_in"] for row in bursts if row["fan_in"]), default=None)
            places = placed[host], before_placed.get(host)
            answer.append((*host, per_hour, share, p99, fan_in, retransmits, *places))
        return sorted(answer, key=lambda row: (row[7], row[:2]))

    def _rates(self, back: int) -> dict[Any, Any]:
        hours = [row for row in self._asked("hours", "hour_ns", back) if row["direction"] != "out"]
        return {
            host: (
                total(rows, "bursts") / (total(rows, "recorded_ns") / HOUR),
                total(rows, "burst_ns") / total(rows, "recorded_ns"),
                _per_gb([row for row in rows if row["retransmits"] is not None]),
            )
            for host, rows in grouped(hours, lambda row: (row["rack"], row["host"]))
        }

    def _received(self) -> list[Row]:
        return [row for row in self._asked("bursts", "start_ns") if row["direction"] != "out"]

    def durations(self) -> Answer:
        answer = []
        for of, rows in grouped(self._asked("bursts", "start_ns"), self._class):
            for duration in sorted({row["duration_ns"] for row in rows}):
                n = sum(row["duration_ns"] <= duration for row in rows)
                answer.append((*of, duration, n, n / len(rows)))
        return answer

    def gaps(self) -> Answer:
        found: dict[Any, dict[Any, list[int]]] = defaultdict(dict)
        key = lambda row: (row["rack"], row["host"], row["recording_id"], row["clock_epoch"])  # noqa: E731
        for recording, rows in grouped(self._asked("bursts", "start_ns"), key):
            rows.sort(key=lambda row: row["start_ns"])
            # a gap has the class of the burst that ends it
            for earlier, later in pairwise(rows):
                gaps = found[self._class(later)].setdefault(recording, [])
                gaps.append(later["start_ns"] - earlier["end_ns"])
        answer = []
        for of in sorted(found):
            tested = _tested(found[of], self._means(key))
            gaps = [gap for recording in found[of].values() for gap in recording]
            for gap in sorted(set(gaps)):
                answer.append((*of, gap, sum(other <= gap for other in gaps) / len(gaps), *tested))
        return answer

    def _means(self, key: Callable[[Row], Any]) -> dict[Any, tuple[int, float]]:
        means = {}
        for recording, rows in grouped(self._asked("bursts", "start_ns"), key):
            rows.sort(key=lambda row: row["start_ns"])
            gaps = [b["start_ns"] - a["end_ns"] for a, b in pairwise(rows)]
            if gaps:
                means[recording] = (len(gaps), sum(gaps) / len(gaps))
        return means

    def markov(self) -> Answer:
        answer = []
        for of, rows in grouped(self._asked("hours", "hour_ns"), self._class):
            hot = total(rows, "hot_hot") + total(rows, "hot_cold")
            after_hot = divided(total(rows, "hot_hot"), hot)
            after_cold = divided(total(rows, "cold_hot"), total(rows, "pairs") - hot)
            ratio = None if after_hot is None or not after_cold else after_hot / after_cold
            answer.append((*of, after_hot, after_cold, ratio, total(rows, "bins")))
        return answer

    def utilization(self) -> Answer:
        hours = dict(grouped(self._asked("hours", "hour_ns"), self._class))
        answer = []
        sizes = [row for row in self._asked("histograms", "hour_ns") if row["measure"] == "utilization"]
        for of, rows in grouped(sizes, self._class):
            names = ("bytes", "burst_bytes", "packets", "burst_packets")
            size, in_bursts, packets, burst_packets = (total(hours[of], name) for name in names)
            facts = (
                divided(in_bursts, size),
                divided(in_bursts, burst_packets),
                divided(size - in_bursts, packets - burst_packets),
            )
            for least in sorted({row["least"] for row in rows}):
                below = sum(row["n"] for row in rows if row["least"] <= least)
                edge = (least + 5) / 100 if least < 100 else None
                answer.append((*of, edge, below / total(rows, "n"), *facts))
        return answer

    def fan_in(self) -> Answer:
        bursts = self._asked("bursts", "start_ns")
        of_class = Counter(map(self._class, bursts))
        answer = []
        for (of, fan_in, pattern), rows in grouped(
            bursts, lambda row: (self._class(row), row["fan_in"], row["pattern"])
        ):
            effective = [row["effective_sources"] for row in rows if row["effective_sources"] is not None]
            median = rank(effective, Fraction(1, 2))
            answer.append((*of, fan_in, len(rows), len(rows) / of_class[of], pattern, median))
        return answer

    def contention(self) -> Answer:
        answer = []
        asked = self._asked("contention", "hour_ns")
        for of, rows in grouped(asked, lambda row: (row["rack"], row["hour_ns"])):
            p90 = _p90(rows)
            for bursting, found in grouped(rows, lambda row: row["bursting"]):
                ns = total(found, "ns")
                answer.append((*of, bursting, ns, ns / total(rows, "ns"), p90, 1 / (1 + bursting)))
        return answer

    def _recorded(self, burst: Row, prefix: str = "") -> list[Span]:
        """Returns the parts of a burst that were recorded, one for each day."""
        of = ("rack", "host", "recording_id", "clock_epoch")
        rows = [row for row in self.tables[f"{prefix}coverage"] if all(row[name] == burst[name] for name in of)]
        return _within((burst["start_ns"], burst["end_ns"]), rows)

    def _stands_in(self, port: Row) -> bool:
        """Returns whether a burst of a port counts traffic to a host of which a recording there lacks a part."""
        parts = self._recorded(port, "port_")
        own = [row for row in self.tables["coverage"] if _is_behind(row, port)]
        return port["direction"] == "out" and not any(
            sum(_length(_within(part, rows)) for part in parts) >= _length(parts)
            for _, rows in grouped(own, lambda row: (row["interface"], row["recording_id"], row["clock_epoch"]))
        )

    def loss(self) -> Answer:
        counts = defaultdict(list)
        heard = [
            (row["rack"], row["host"], part)
            for row in self.tables["bursts"]
            if row["direction"] != "out"
            for part in self._recorded(row)
        ] + [
            (row["rack"], row["attached_host"] or f"{row['host']} {row['interface']}", part)
            for row in self.tables["port_bursts"]
            if self._stands_in(row)
            for part in self._recorded(row, "port_")
        ]
        for burst in self._received():
            at = min(start for start, _ in self._recorded(burst))
            hosts = {host for rack, host, (start, end) in heard if rack == burst["rack"] and start <= at < end}
            of = (
                _class_of(burst["duration_ns"], (0, 10**5, 10**6, 10**7, 10**8)),
                _class_of(len(hosts), (1, 2, 4, 8, 16)),
                _class_of(burst["fan_in"], (0, 1, 2, 4, 8, 16, 32, 64)),
            )
            if burst["retransmits"] is not None:
                counts[of].append(burst["retransmits"] + burst["retransmits_after"] > 0)
        return [
            (*of, len(lossy), sum(lossy), sum(lossy) / len(lossy), *wilson(sum(lossy), len(lossy)))
            for of, lossy in sorted(counts.items())
        ]

    def hours_of_day(self) -> Answer:
        rates = {
            of: total(rows, "bursts") / (total(rows, "recorded_ns") / HOUR)
            for of, rows in grouped(
                (row for row in self.tables["hours"] if row["direction"] != "out"),
                lambda row: (row["rack"], row["hour_ns"]),
            )
        }
        answer = []
        for (rack, hour), rate in sorted(rates.items()):
            if self.since <= hour < self.until:
                bursts = [
                    row for row in self._received() if row["rack"] == rack and row["start_ns"] // HOUR * HOUR == hour
                ]
                times = [row for row in self.tables["contention"] if (row["rack"], row["hour_ns"]) == (rack, hour)]
                p50 = rank((row["fan_in"] for row in bursts if row["fan_in"]), Fraction(1, 2))
                p90 = _p90(times) if times else None
                answer.append((rack, hour, rate, p50, p90, self._resembles(rates, rack, hour // DAY * DAY)))
        return answer

    def _resembles(self, rates: dict[Any, float], rack: str, day: int) -> float | None:
        both = [
            (rate, rates[rack, hour - DAY])
            for (of, hour), rate in rates.items()
            if of == rack
            and day <= hour < day + DAY
            and self.since <= hour < self.until
            and (rack, hour - DAY) in rates
        ]
        if len(both) < 3:
            return None
        x, y = zip(*both, strict=True)
        if len(set(x)) == 1 or len(set(y)) == 1:
            return None
        mx, my = sum(x) / len(x), sum(y) / len(y)
        spread = math.sqrt(sum((a - mx) ** 2 for a in x) * sum((b - my) ** 2 for b in y))
        return sum((a - mx) * (b - my) for a, b in both) / spread

    def aggressors(self) -> Answer:
        directions = {_burst(row): row["direction"] for row in self.tables["bursts"]}
        leaders = {of: _leader(rows) for of, rows in grouped(self.tables["senders"], _burst)}
        counted = [
            row
            for row in self.tables["senders"]
            if row["in_fan_in"] and row["members"] == 1 and directions[_burst(row)] != "out"
        ]
        oldest = min((row["hour_ns"] for row in self.tables["hours"]), default=None)
        answer = []
        for source, rows in grouped(counted, lambda row: row["source"]):
            asked = [row for row in rows if self.since <= row["start_ns"] < self.until]
            if asked:
                first, back = min(row["start_ns"] for row in rows), self.until - WEEK
                new = first >= back if oldest is not None and oldest < back else None
                hosts = {(row["rack"], row["host"]) for row in asked}
                led = sum(row["source"] == leaders[_burst(row)] for row in asked)
                counts = (len({rack for rack, _ in hosts}), len(hosts), len(asked), led, total(asked, "bytes"))
                answer.append((source, self._service(source, asked), *counts, first, new))
        return sorted(answer, key=lambda row: (-row[2], -row[3], -row[4], row[0]))

    def _service(self, source: str, bursts: list[Row]) -> str | None:
        """Returns the service of an address at the time of one of BURSTS; of several, the first."""
        found = [
            of["service"]
            for of in self.inventory
            for row in bursts
            if of["address"] == source and _overlap_ns(of, row["start_ns"], row["start_ns"] + 1)
        ]
        return min(found, default=None)

    def switch_drops(self) -> Answer:
        queues = ("device", "port", "queue", "rack", "host", "interface")
        answer = []
        for of, rows in grouped(self._asked("queue_drops", "hour_ns"), lambda row: [row[name] for name in queues]):
            ways = [(-total(found, "windows"), way) for way, found in grouped(rows, lambda row: row["semantics"])]
            way = min(ways)[1]
            kept = [row for row in rows if row["semantics"] == way]
            names = ("windows", "lossy_windows", "drops", "burst_windows", "lossy_burst_windows", "burst_drops")
            windows, lossy, drops, burst, lossy_burst, burst_drops = (total(kept, name) for name in names)
            in_bursts, elsewhere = divided(lossy_burst, burst), divided(lossy - lossy_burst, windows - burst)
            risk = None if in_bursts is None or not elsewhere else in_bursts / elsewhere
            bounds = risk_interval(lossy_burst, burst, lossy - lossy_burst, windows - burst)
            shares = (divided(burst_drops, drops), risk, *bounds)
            answer.append((*of, way, windows, drops, burst_drops, *shares, *self._why(of)))
        return sorted(answer, key=lambda row: (-row[8], row[:6]))

    def _why(self, queue: Sequence[str]) -> tuple[Any, ...]:
        """Returns the verdict on the probes that cross the port of a queue: of several, the one with the most
        lateness."""
        *_, rack, host, interface = queue
        about = [
            row
            for row in self._asked("verdicts", "start_ns")
            if (row["rack"], row["host"]) == (rack, host)
            and row["direction"] != "out"
            and (interface == "" or row["interface"] in (None, interface))
        ]
        if not about:
            return (None, None, None)
        chosen = min(about, key=lateness)
        return (chosen["cause"], chosen["excess_share"], chosen["summary"])

    def switch_ports(self) -> Answer:
        names = ("rack", "host", "interface", "direction", "attached_host", "attached_interface")

        def key(row: Row) -> tuple[str, ...]:
            return tuple(row[name] or "" for name in names)

        answer = []
        bursts = dict(grouped(self._asked("port_bursts", "start_ns"), key))
        for of, rows in grouped(self._asked("port_hours", "hour_ns"), key):
            own = bursts.get(of, [])
            recorded = total(rows, "recorded_ns")
            rates = total(rows, "bursts") / (recorded / HOUR), total(rows, "burst_ns") / recorded
            attached = of[4:] if of[4] else (None, None)
            own_hours = [(host, row) for row in rows for host in self.tables["hours"] if host["date"] == row["date"]]
            is_recorded = any(_is_behind(host, row) for host, row in own_hours) if of[4] else None
            p99 = known_rank((row["duration_ns"] for row in own), Fraction(99, 100))
            peak = max((row["peak_utilization"] for row in own), default=None)
            losing = divided(total(rows, "losing_bins"), total(rows, "bins"))
            answer.append(
                (*of[:4], *attached, is_recorded, recorded, total(rows, "bursts"), *rates, p99, peak, losing, of)
            )
        places = {row: 1 + sum((o[10], o[9]) > (row[10], row[9]) for o in answer) for row in answer}
        return [(*row[:-1], places[row]) for row in sorted(answer, key=lambda row: (places[row], row[-1]))]


def _is_behind(host: Row, port: Row) -> bool:
    """Returns whether a row counts what the host behind a port receives there, on any day."""
    return (
        host["rack"] == port["rack"]
        and host["host"] == port["attached_host"]
        and port["attached_interface"] in ("", host["interface"])
        and host["direction"] != "out"
    )


def _within(span: Span, rows: Iterable[Row]) -> list[Span]:
    """Returns the parts of a span in the times of ROWS."""
    parts = [(max(span[0], row["start_ns"]), min(span[1], row["end_ns"])) for row in rows]
    return [(start, end) for start, end in parts if start < end]


def _length(spans: Iterable[Span]) -> int:
    return sum(end - start for start, end in spans)


def _burst(row: Row) -> tuple[Any, ...]:
    return tuple(row[name] for name in ("rack", "host", "recording_id", "clock_epoch", "start_ns"))


def _leader(senders: list[Row]) -> str | None:
    """Returns the sender that sent more of a burst than any other; None if several sent as much."""
    most = max(row["bytes"] for row in senders)
    found = [row["source"] for row in senders if row["bytes"] == most]
    return found[0] if len(found) == 1 else None


def _places(rates: dict[Any, Any]) -> dict[Any, int]:
    """Returns places: 1 is the largest share, then rate; equal ones share a place."""
    keys = {host: (share, per_hour) for host, (per_hour, share, _) in rates.items()}
    return {host: 1 + sum(other > key for other in keys.values()) for host, key in keys.items()}


def _p90(rows: list[Row]) -> Any:
    for bursting in sorted({row["bursting"] for row in rows}):
        if 10 * sum(row["ns"] for row in rows if row["bursting"] <= bursting) >= 9 * total(rows, "ns"):
            return bursting
    raise AssertionError


def _per_gb(rows: list[Row]) -> float | None:
    """Returns retransmissions, from rows that counted them."""
    return divided(total(rows, "retransmits") * 1e9, total(rows, "wire_bytes"))


def _class_of(value: int, edges: Sequence[int]) -> int:
    return max(edge for edge in edges if edge <= value)


def _tested(gaps: dict[Any, list[int]], means: dict[Any, tuple[int, float]]) -> tuple[Any, Any]:
    """Returns the distance from an exponential distribution, and the bound of its probability."""
    scaled = sorted(gap / means[of][1] for of, found in gaps.items() if means[of][0] >= 10 for gap in found)
    n = len(scaled)
    if not n:
        return None, None
    d = max(max((i + 1) / n - (1 - math.exp(-x)), (1 - math.exp(-x)) - i / n) for i, x in enumerate(scaled))
    modified = (d - 0.2 / n) * (math.sqrt(n) + 0.26 + 0.5 / math.sqrt(n))
    table = ((1.308, 0.01), (1.19, 0.025), (1.094, 0.05), (0.99, 0.1), (0.926, 0.15))
    return d, next((p for critical, p in table if modified >= critical), None)
