"""A rack of hosts with bursts at given times."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from storelib import rows, write

from mburst.analysis.bursts.find import BurstDefinition
from mburst.analysis.rack.period import Period
from mburst.analysis.rack.report import RackFigures, gather
from mburst.sql import StoreFolder

MS = 10**6
HOUR = 3600 * 10**9
DAY = 24 * HOUR
START = 1_795_132_800 * 10**9  # 2026-11-20, a Friday, midnight
FULL = 125_000  # wire bytes of a bin of 1 ms at 1 Gb/s
Burst = tuple[int, int]  # first bin and number of bins, in ms since the start of the period


def fill(
    store: StoreFolder,
    hosts: Mapping[str, Sequence[Burst]],
    *,
    start: int = START,
    length: int = DAY,
    rack: str = "r1",
    senders: Sequence[str] = ("10.0.0.1",),
    **run: Any,
) -> None:
    """Adds a recording of each host over LENGTH ns from START: bins of 1 ms, full in its bursts, and a quiet one in
    each of the first ten seconds. SENDERS send equal parts of each burst."""
    for host, bursts in hosts.items():
        name = {"recording_id": f"{rack}-{host}-{start}", "host": host, "rack": rack}
        hot = {first + i for first, n in bursts for i in range(n)}
        bins = sorted(hot | set(range(0, 10_000, 1000)))
        write(
            store,
            "recordings",
            {
                **name,
                "start_ns": start,
                "end_ns": start + length - 1,
                "packets": len(bins),
                "written_ns": start + length,
                "backend": "afpacket",
                **run,
            },
        )
        write(
            store,
            "bins",
            *(
                {
                    **name,
                    "ts_ns": start + i * MS,
                    "wire_bytes": FULL if i in hot else 100,
                    "bytes": FULL - 24 if i in hot else 76,
                    "quality": 2,
                    "retransmits": 0,
                }
                for i in bins
            ),
        )
        part = (FULL - 24) // len(senders)
        write(
            store,
            "sources",
            *(
                {
                    **name,
                    "ts_ns": start + i * MS,
                    "source": sender,
                    "bytes": part,
                    "packets": 5,
                    "first_ns": start + i * MS,
                    "last_ns": start + (i + 1) * MS - 1,
                }
                for i in sorted(hot)
                for sender in senders
            ),
        )


def fill_ports(
    store: StoreFolder,
    bursts: Mapping[str, Sequence[Burst]],
    direction: str = "out",
    *,
    device: str = "tor1",
    start: int = START,
    length: int = HOUR,
    rack: str = "r1",
    quality: int = 0,
) -> None:
    """Adds recordings of ports of DEVICE, as `mburst collect` makes them: full in their bursts, and a quiet last bin.
    QUALITY is that of each bin."""
    for port, of in bursts.items():
        name = {"recording_id": f"{rack}-{device}-{port}-{direction}-{start}", "host": device, "rack": rack}
        name |= {"interface": port, "direction": direction}
        hot = sorted({first + i for first, n in of for i in range(n)})
        row = {"start_ns": start, "end_ns": start + length - 1, "written_ns": start + length, "backend": "otlp"}
        bins = [*((start + i * MS, FULL) for i in hot), (start + length - MS, 100)]
        rest = {**name, "packets": 0, "retransmits": None, "quality": quality}
        found = [{**rest, "ts_ns": at, "bytes": size, "wire_bytes": size} for at, size in bins]
        for table, given in (("recordings", [{**name, **row}]), ("bins", found)):
            with store.writer(table, rack=rack) as writer:  # in files of no host
                writer.append(rows(table, *given))


def report(
    store: StoreFolder, rack: str = "r1", start: int = START, length: int = DAY, **definition: Any
) -> RackFigures:
    """Returns the report of a period."""
    return gather(store, rack, Period(start, start + length), BurstDefinition(**definition))
