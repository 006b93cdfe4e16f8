"""The totals of the hours of partitions, counted bin by bin and burst by burst in Python."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from itertools import pairwise
from typing import Any

from mburst.analysis.bursts.find import BurstDefinition, find_bursts
from mburst.sql import StoreFolder

HOUR = 3600 * 10**9
DAY = 24 * HOUR
KEY = ("recording_id", "clock_epoch", "hour_ns")
Amounts = dict[tuple[Any, ...], Counter[str]]


class Hours:
    """The hours of a store: `amounts` as in hours.sql, `sizes` as in histograms.sql, over the spans between EDGES."""

    def __init__(self, store: StoreFolder, definition: BurstDefinition, edges: list[int], after_ns: int) -> None:
        self.amounts: Amounts = defaultdict(Counter)
        self.sizes: Counter[Any] = Counter()
        self._spans, self._after_ns = list(pairwise(edges)), after_ns
        with store.connect() as con:
            self.bursts = find_bursts(con, definition)
            columns = "recording_id, clock_epoch, rack, host, interface, direction, start_ns, end_ns, bin_ns, link_bps"
            self.recorded = _dicts(con.execute(f"SELECT {columns} FROM recorded"))
            of_ports = con.execute("SELECT recording_id FROM recordings WHERE backend = 'otlp'").fetchall()
            self.ports = {recording for (recording,) in of_ports}
            links = _dicts(con.execute("SELECT device, port, host, interface FROM links"))
            self._links = {(of["device"], of["port"]): (of["host"], of["interface"]) for of in links}
            bins = _dicts(con.execute("FROM bins"))
        for recording in self.recorded:
            of = (recording["recording_id"], recording["clock_epoch"])
            rows = [row for row in bins if (row["recording_id"], row["clock_epoch"]) == of]
            self._count_bins(of, recording, definition, rows)
            bursts = [b for b in self.bursts if (b["recording_id"], b["clock_epoch"]) == of]
            self._count_bursts(of, bursts)
            self._count_within(of, recording, definition, rows, bursts)

    def _count_bins(self, of: Any, recording: Any, definition: BurstDefinition, rows: list[Any]) -> None:
        width, link_bps = definition.width_ns(recording["bin_ns"]), recording["link_bps"]
        sums: dict[int, Counter[str]] = defaultdict(Counter)
        for row in rows:
            cell = sums[row["ts_ns"] // width * width]
            cell.update({name: row[name] for name in ("bytes", "wire_bytes", "packets", "retransmits", "ce_packets")})
            cell["losing_bins"] |= row["quality"] >> 5 & 1
        first, was_hot = recording["start_ns"] // width * width, False
        for at in range(first, recording["end_ns"], width):
            cell = sums.pop(at, Counter())
            hot = cell["wire_bytes"] * 8 * 10**9 >= definition.threshold * width * link_bps
            amounts = self.amounts[(*of, at // HOUR * HOUR)]
            amounts.update(bins=1, hot_bins=hot, **cell)
            if at > first:
                amounts.update(
                    pairs=1, hot_hot=was_hot and hot, cold_hot=hot and not was_hot, hot_cold=was_hot and not hot
                )
            step = min(int(cell["wire_bytes"] * 8 * 10**9 * 20 // (width * link_bps)), 20) * 5
            self.sizes[(*of, at // HOUR * HOUR, "utilization", step)] += 1
            was_hot = hot
        assert not sums
        for start, end in self._within([recording]):
            for hour in range(start // HOUR * HOUR, end, HOUR):
                self.amounts[(*of, hour)]["recorded_ns"] += min(end, hour + HOUR) - max(start, hour)

    def _count_bursts(self, of: Any, bursts: list[Any]) -> None:
        for since, until in self._spans:
            last_ns = None
            for burst in (burst for burst in bursts if since <= burst["start_ns"] < until):
                hour = burst["start_ns"] // HOUR * HOUR
                self.amounts[(*of, hour)]["bursts"] += 1
                sizes = {"duration": burst["duration_ns"], "fan_in": burst["fan_in"]}
                if last_ns is not None:
                    sizes["gap"] = burst["start_ns"] - last_ns
                for measure, size in sizes.items():
                    self.sizes[(*of, hour, measure, 1 << size.bit_length() - 1 if size else 0)] += 1
                last_ns = burst["end_ns"]

    def _count_within(self, of: Any, recording: Any, definition: BurstDefinition, rows: Any, bursts: Any) -> None:
        """Counts the bins, the losses and the time of bursts in the spans in which they lie."""
        width = definition.width_ns(recording["bin_ns"])
        for row in rows:
            at = row["ts_ns"] // width * width
            if any(burst["start_ns"] <= at < burst["end_ns"] for burst in bursts):
                amounts = self.amounts[(*of, at // HOUR * HOUR)]
                amounts.update(burst_bytes=row["bytes"], burst_packets=row["packets"])
            before = [burst for burst in bursts if burst["start_ns"] <= row["ts_ns"]]
            after = row["ts_ns"] - before[-1]["end_ns"] if before else self._after_ns
            if after < self._after_ns:
                names = "burst_{}" if after < 0 else "{}_after"
                amounts = self.amounts[(*of, at // HOUR * HOUR)]
                amounts.update({names.format(name): row[name] for name in ("retransmits", "ce_packets")})
        for start, end in self._within([recording]):
            for hour in range(start // HOUR * HOUR, end, HOUR):
                for burst in bursts:
                    ns = min(end, hour + HOUR, burst["end_ns"]) - max(start, hour, burst["start_ns"])
                    self.amounts[(*of, hour)]["burst_ns"] += max(ns, 0)

    def _within(self, times: Iterable[Any]) -> list[tuple[int, int]]:
        """Returns the parts of TIMES in each span."""
        return [
            (max(since, of["start_ns"]), min(until, of["end_ns"]))
            for since, until in self._spans
            for of in times
            if of["start_ns"] < until and of["end_ns"] > since
        ]

    def contention(self, hosts: set[tuple[str, str]]) -> Counter[Any]:
        """Returns nanoseconds by rack, hour, how many receivers were recorded, and how many were in a burst; of the
        recordings of HOSTS, including devices."""
        found: Counter[Any] = Counter()
        for rack in {rack for rack, _ in hosts}:
            mine = [
                [row for row in rows if (row["rack"], row["host"]) in hosts] for rows in (self.recorded, self.bursts)
            ]
            own = [of for of in mine[0] if of["rack"] == rack]
            recorded, bursting = (
                [
                    (self._reached(row)[0], *times)
                    for row in rows
                    if row["rack"] == rack and self._reached(row)[0] and not is_beside(row)
                    for times in self._within(parts_of(row))
                ]
                for rows, is_beside, parts_of in (
                    (mine[0], lambda row: False, lambda row: [row]),
                    (mine[1], lambda row, own=own: self._is_counted_by_host(row, own), self._recorded_parts),
                )
            )
            edges = {edge for _, *times in recorded + bursting for edge in times}
            hours = range(min(edges, default=0) // HOUR * HOUR, max(edges, default=0), HOUR)
            for at, until in pairwise(sorted({*edges, *hours})):
                n, b = (len({host for host, start, end in of if start <= at < end}) for of in (recorded, bursting))
                if n:
                    found[(rack, at // HOUR * HOUR, n, b)] += until - at
        return found

    def _recorded_parts(self, burst: Any) -> list[dict[str, int]]:
        """Returns the parts of a burst in the time in which its recording counted."""
        of_epoch = [
            own for own in self.recorded if all(own[name] == burst[name] for name in ("recording_id", "clock_epoch"))
        ]
        return [
            {"start_ns": max(burst["start_ns"], own["start_ns"]), "end_ns": min(burst["end_ns"], own["end_ns"])}
            for own in of_epoch
        ]

    def _reached(self, row: Any) -> tuple[str | None, str | None]:
        """Returns the receiver of the traffic of a recording or burst (None: not a host), and its interface (None:
        unknown)."""
        if row["recording_id"] not in self.ports:
            return (None if row["direction"] == "out" else row["host"]), row["interface"]
        name = f"{row['host']} {row['interface']}"
        return (
            self._links.get((row["host"], row["interface"]), (name, None))
            if row["direction"] == "out"
            else (None, None)
        )

    def _is_counted_by_host(self, burst: Any, recorded: Any) -> bool:
        """Returns whether BURST is that of a port, and a clock epoch among RECORDED of its host's traffic there covers
        it."""
        host, interface = self._reached(burst)
        covered: Counter[tuple[str, int]] = Counter()
        parts = self._recorded_parts(burst)
        for of in recorded:
            is_own = of["recording_id"] not in self.ports and self._reached(of)[0] == host
            if is_own and interface in ("", of["interface"]):
                for part in parts:
                    shared = min(of["end_ns"], part["end_ns"]) - max(of["start_ns"], part["start_ns"])
                    covered[of["recording_id"], of["clock_epoch"]] += max(shared, 0)
        is_port, whole = burst["recording_id"] in self.ports, sum(part["end_ns"] - part["start_ns"] for part in parts)
        return is_port and any(ns >= whole for ns in covered.values())


def _dicts(result: Any) -> list[dict[str, Any]]:
    names = [of[0] for of in result.description]
    return [dict(zip(names, row, strict=True)) for row in result.fetchall()]


def summed_hours(tables: Iterable[Any]) -> Amounts:
    """Returns the sums of the rows of tables that hours.sql lists."""
    found: Amounts = defaultdict(Counter)
    for row in (row for table in tables for row in table.to_pylist()):
        key = tuple(row[name] for name in KEY)
        texts = {*KEY, "rack", "host", "interface", "direction", "link_bps", "bin_ns", "quality"}
        texts |= {"attached_host", "attached_interface"}
        found[key].update({name: amount for name, amount in row.items() if name not in texts})
    return found


def summed_sizes(tables: Iterable[Any]) -> Counter[Any]:
    """Returns the sums of the rows of tables that histograms.sql lists."""
    found: Counter[Any] = Counter()
    for row in (row for table in tables for row in table.to_pylist()):
        found[(*(row[name] for name in KEY), row["measure"], row["least"])] += row["n"]
    return found


def summed_contention(tables: Iterable[Any]) -> Counter[Any]:
    """Returns the sums of the rows of tables that contention.sql lists."""
    found: Counter[Any] = Counter()
    for row in (row for table in tables for row in table.to_pylist()):
        found[tuple(row[name] for name in ("rack", "hour_ns", "hosts", "bursting"))] += row["ns"]
    return found
