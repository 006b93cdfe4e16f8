"""A store that has everything on which answers could differ, and the true values, in plain arithmetic.

Rack r1: host a with two interfaces, of which eth0 was recorded twice at once, and host b, whose recorder was killed.
Rack r2: host c with coarse stamps, whose recorder was killed, followed by a gap, host d, cut off without a last row,
and host e, whose clock was set forward. Probes to host a with five kinds of stamps; switch queues with windows that are
impossible, or came twice.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from storelib import rows, write

from mburst.sql import StoreFolder

MS = 10**6
START = 1_795_132_800 * 10**9
END = START + 1000 * MS
FULL = 125_000  # wire bytes of a bin of 1 ms at 1 Gb/s
IMPOSSIBLE = 1024
PROBES = 2000
MINUTE = 60 * 10**9


@dataclass(frozen=True)
class Recorded:
    """A recording: bursts as (first bin, bins), in ms since START; FIRST and LAST are its outermost bins."""

    name: str
    rack: str
    host: str
    interface: str
    first: int
    last: int
    bursts: tuple[tuple[int, int], ...]
    quality: int = 1
    losing: tuple[int, ...] = ()
    row: dict[str, Any] = field(default_factory=dict)
    quiet: tuple[int, ...] = ()  # other bins that have a row
    marked: tuple[int, ...] = ()  # bins with a packet that a switch marked: congestion experienced
    asking: tuple[int, ...] | None = ()  # bins with ASKING; None: recorded by a version of mburst that did not count it
    step: tuple[int, int] | None = None  # its clock was set from the end of the first bin to the start of the second

    @property
    def span(self) -> tuple[int, int]:
        return START + self.first * MS, START + (self.last + 1) * MS

    @property
    def spans(self) -> list[tuple[int, int]]:
        """Returns when it counted: times that a clock skipped do not count."""
        start, end = self.span
        if self.step is None:
            return [(start, end)]
        return [(start, START + (self.step[0] + 1) * MS), (START + self.step[1] * MS, end)]

    @property
    def hot(self) -> set[int]:
        """Returns the bins of its bursts."""
        return {first + i for first, n in self.bursts for i in range(n)}

    @property
    def stored(self) -> list[int]:
        """Returns the bins that have a row."""
        return sorted(self.hot | {self.first, *self.losing, *self.quiet, self.last, *(self.step or ())})

    @property
    def wire_bytes(self) -> int:
        return sum(FULL if i in self.hot else 100 for i in self.stored)

    @property
    def burst_spans(self) -> list[tuple[int, int]]:
        return [(START + first * MS, START + (first + n) * MS) for first, n in self.bursts]


ASKING = {"cnp_packets": 3, "pause_frames": 2, "resume_frames": 1, "pause_quanta": 700, "pause_classes": 24}
ASKED_CLASSES = [3, 4]
KILLED = {
    "complete": False,
    "ended": "",
    "start_ns": None,
    "end_ns": None,
    "packets": 0,
    "wire_bytes": 0,
    "counted_segments": 0,
    "clock_epochs": 1,
}
BROKEN_OFF = {"complete": False, "ended": "killed"}
CUT_OFF = {"complete": False, "ended": "", "end_ns": None}
RECORDINGS = (
    Recorded(
        "r1-a0",
        "r1",
        "a",
        "eth0",
        0,
        999,
        ((100, 10), (300, 20)),
        quiet=(250, 699),
        marked=(104, 105, 300),
        asking=(100, 250),
    ),
    Recorded("r1-a0-again", "r1", "a", "eth0", 250, 699, ((300, 20),), asking=None),
    Recorded("r1-a1", "r1", "a", "eth1", 0, 999, ((100, 5),), losing=(101, 400), row={"dropped": 7}),
    Recorded("r1-b0", "r1", "b", "eth0", 0, 899, ((105, 10),), row=KILLED),
    Recorded(
        "r2-c0",
        "r2",
        "c",
        "eth0",
        0,
        999,
        ((102, 10),),
        quality=8,
        row={"clock": "file, 1 µs or coarser", **BROKEN_OFF},
    ),
    Recorded("r2-d0", "r2", "d", "eth0", 3, 799, (), row=CUT_OFF),
    Recorded(
        "r2-e0", "r2", "e", "eth0", 0, 899, ((50, 10), (190, 10), (700, 5)), row={"clock_epochs": 2}, step=(199, 700)
    ),
)
GAP = {
    "recording_id": "r2-c0",
    "host": "c",
    "rack": "r2",
    "interface": "eth0",
    "direction": "in",
    "start_ns": END,
    "end_ns": END + 50 * MS,
    "reason": "killed",
    "packets": 12,
    "bytes": 1200,
    "detail": "",
}
LANES = sorted({(one.rack, one.host, one.interface) for one in RECORDINGS})


def of_lane(lane: tuple[str, str, str]) -> list[Recorded]:
    return [one for one in RECORDINGS if (one.rack, one.host, one.interface) == lane]


def merged(spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Returns the same time with each moment once: counted millisecond by millisecond."""
    ticks = sorted({at for start, end in spans for at in range(start, end, MS)})
    found: list[tuple[int, int]] = []
    for at in ticks:
        if found and found[-1][1] == at:
            found[-1] = found[-1][0], at + MS
        else:
            found.append((at, at + MS))
    return found


# --- probes -----------------------------------------------------------------------------------------------------------

PATHS = {  # to host a: protocol, and the measure of its probes
    "api-1": ("udp", "application"),
    "api-2": ("udp", "network round trip"),
    "api-3": ("icmp", "round trip"),
    "api-4": ("tcp", "reported round trip"),
    "api-5": ("udp", "application"),
}


def probe(src: str, k: int) -> dict[str, Any]:
    """Returns the k-th probe of a path. The reflector's clock is ahead, and occasionally it is slow."""
    tx = START + k * MS // 2 + 1000
    row: dict[str, Any] = {"seq": k, "src": src, "dst": "a", "protocol": PATHS[src][0], "tx_ns": tx, "stamp_kind": "sw"}
    if src != "api-4":
        row["app_send_ns"] = tx - 1500 if src in ("api-1", "api-5") else None
    if k % 100 == 99:
        return {**row, "lost": True}
    there = 100_000 + k * 7919 % 1000 * 50 + k % 3
    if any(first <= k // 2 < first + n for first, n in RECORDINGS[0].bursts):
        there += 8 * MS + k * 13 % 1000
    turn, back = 1_200_000 + k if k % 7 == 0 else 10_000, 90_000
    if src == "api-4":
        return {**row, "rtt_ns": there + back}
    rx = tx + there + turn + back
    row["rx_ns"] = rx
    if src != "api-3":
        row |= {"remote_rx_ns": tx + there + 5 * MS, "remote_tx_ns": tx + there + turn + 5 * MS}
    if src == "api-1" or (src == "api-5" and k % 5 < 3):
        row["app_recv_ns"] = rx + 2500
    return row


def latencies(src: str) -> list[int]:
    """Returns the latencies of the probes of a path, by its measure, sorted."""
    sent = [probe(src, k) for k in range(PROBES)]
    measures = {
        "application": lambda row: row["app_recv_ns"] - row["app_send_ns"] if row.get("app_recv_ns") else None,
        "network round trip": lambda row: row["rx_ns"] - row["tx_ns"] - (row["remote_tx_ns"] - row["remote_rx_ns"]),
        "round trip": lambda row: row["rx_ns"] - row["tx_ns"],
        "reported round trip": lambda row: row["rtt_ns"],
    }
    took = [measures[PATHS[src][1]](row) for row in sent if not row.get("lost")]
    return sorted(value for value in took if value is not None)


def nearest_rank(values: list[int], per_mille: int) -> int:
    """Returns the smallest of sorted values that at least this share does not exceed."""
    return values[-(-len(values) * per_mille // 1000) - 1]


# --- switch queues ----------------------------------------------------------------------------------------------------

QUEUES = {
    ("tor-1", "swp1", "0"): (99_000, 3),
    ("tor-1", "swp2", "0"): (500, None),
}  # deepest window, packets dropped (None: not reported)


def windows() -> Iterator[dict[str, Any]]:
    """Yields windows of 10 ms of both queues."""
    for i in range(100):
        window = {
            "window_start_ns": START + i * 10 * MS,
            "ts_ns": START + (i + 1) * 10 * MS,
            "semantics": "max-since-last",
        }
        yield {
            **window,
            "port": "swp1",
            "max_bytes": i * 1000,
            "dropped_packets": 3 if i == 50 else 0,
            "ecn_marked_packets": 2 if i in (40, 50) else 0,
        }
        yield {**window, "port": "swp2", "max_bytes": 500 if i == 7 else 0}
        if i == 50:  # collected twice
            yield {
                **window,
                "port": "swp1",
                "max_bytes": i * 1000,
                "dropped_packets": 3,
                "ecn_marked_packets": 2,
                "batch": "batch-2",
            }
        for batch in ("batch-1", "batch-2") if i == 60 else ():
            yield {
                **window,
                "port": "swp1",
                "queue": "0",
                "max_bytes": 10**12,
                "dropped_packets": 10**9,
                "ts_ns": window["ts_ns"] + 1,
                "quality": IMPOSSIBLE,
                "batch": batch,
            }


# --- the stores -------------------------------------------------------------------------------------------------------


def _record(store: StoreFolder, one: Recorded) -> None:
    name = {"recording_id": one.name, "host": one.host, "rack": one.rack, "interface": one.interface}
    writer_id = f"{RECORDINGS.index(one):012x}"
    start, end = one.span
    hot, at = one.hot, one.stored
    epoch = {i: int(one.step is not None and i >= one.step[1]) for i in at}
    bins = [
        {
            **name,
            "ts_ns": START + i * MS,
            "clock_epoch": epoch[i],
            "wire_bytes": FULL if i in hot else 100,
            "bytes": FULL - 24 if i in hot else 76,
            "quality": one.quality | (32 if i in one.losing else 0),
            "ce_packets": int(i in one.marked),
            **({} if one.asking is None else ASKING if i in one.asking else dict.fromkeys(ASKING, 0)),
        }
        for i in at
    ]
    sent = [
        {
            **name,
            "ts_ns": START + i * MS,
            "clock_epoch": epoch[i],
            "source": sender,
            "bytes": FULL // 2,
            "first_ns": START + i * MS,
            "last_ns": START + (i + 1) * MS - 1,
        }
        for i in sorted(hot)
        for sender in ("10.0.0.1", "10.0.0.2")
    ]
    row = {
        **name,
        "start_ns": start + 200_000,
        "end_ns": end - 300_000,
        "packets": len(bins),
        "written_ns": end,
        "wire_bytes": one.wire_bytes,
        "backend": "afpacket",
        "quality": one.quality,
        "ended": "finished",
        "writer_id": writer_id,
        "capture_id": one.name,
        **one.row,
    }
    for table, given in (("recordings", [row]), ("bins", bins), ("sources", sent)):
        if given:
            with store.writer(table, one.host, one.rack, writer_id) as writer:
                writer.append(rows(table, *given))


def rich(path: Path) -> StoreFolder:
    """Returns the store of this module."""
    store = StoreFolder.create(path)
    for one in RECORDINGS:
        _record(store, one)
    write(store, "probes", *(probe(src, k) for src in PATHS for k in range(PROBES)))
    write(store, "queues", *windows())
    write(store, "gaps", GAP)
    write(
        store,
        "links",
        *(
            {
                "ts_ns": START - 1,
                "host": host,
                "interface": "eth0",
                "rack": "r1",
                "port": port,
                "queue": "",
                "origin": "configuration",
                "present": True,
            }
            for host, port in (("a", "swp1"), ("b", "swp2"))
        ),
    )
    return store


def without_bins(path: Path) -> StoreFolder:
    """Returns a store with probes and queue windows of two times, 20 minutes apart, and no recording."""
    store = StoreFolder.create(path)
    for back in (20 * MINUTE, 0):
        write(
            store,
            "probes",
            *(
                {
                    "seq": k,
                    "src": "x",
                    "dst": "y",
                    "tx_ns": START - back + k * MS,
                    "rx_ns": START - back + k * MS + 70_000 + k,
                }
                for k in range(200)
            ),
        )
        write(store, "queues", {"window_start_ns": START - back, "ts_ns": START - back + MS, "max_bytes": 5000 + back})
    return store
