"""A recording of canary bursts, computed independently of the product: frames one by one, by the recorder's clock."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from storelib import write

from mburst.sent_burst import SentBurst
from mburst.services.canary import CanaryRun
from mburst.sql import StoreFolder

US, MS, SECOND = 10**3, 10**6, 10**9
START = 1_795_132_800 * SECOND  # 2026-11-20
SENDER = "10.0.0.9"
FRAME = 1514


def sent_at(
    starts: Sequence[int], sizes: Sequence[int], link_bps: int = 10**9, held_up: Sequence[int] = ()
) -> list[SentBurst]:
    """Returns bursts of whole frames, back to back at line rate."""
    found = []
    for number, (start, size) in enumerate(zip(starts, sizes, strict=True), 1):
        packets = max(1, size // FRAME)
        length = (packets - 1) * (FRAME + 24) * 8 * SECOND // link_bps
        found.append(
            SentBurst(number, size, 0, start, start + length, 1000, "sw", packets, packets * FRAME, number in held_up)
        )
    return found


def run_of(sent: Sequence[SentBurst], batch: str = "canary-0123456789abcdef", source: str = SENDER) -> CanaryRun:
    return CanaryRun(batch, "cache-1", 9, source, 10**9, sent)


def counted(
    frames: Sequence[tuple[int, int, str, int]], bin_ns: int, summed: Callable[[int], bool]
) -> tuple[dict[tuple[int, int], list[int]], dict[tuple[int, int, str], list[int]]]:
    """Returns the bins of FRAMES (arrival, bytes, source, clock epoch), by epoch and begin, each with bytes and
    packets; and the rows of senders, by epoch, ms and source, with bytes, packets, first and last arrival."""
    bins: dict[tuple[int, int], list[int]] = {}
    rows: dict[tuple[int, int, str], list[int]] = {}
    for at, size, who, epoch in frames:
        one = bins.setdefault((epoch, at // bin_ns * bin_ns), [0, 0])
        one[0] += size
        one[1] += 1
        listed = "other" if summed(at // MS * MS) else who
        row = rows.setdefault((epoch, at // MS * MS, listed), [0, 0, at, at])
        row[:] = row[0] + size, row[1] + 1, min(row[2], at), max(row[3], at)
    return bins, rows


def record(
    store: StoreFolder,
    sent: Sequence[SentBurst],
    arrival: Callable[[int], int],
    *,
    source: str = SENDER,
    lost: Callable[[int, int], bool] = lambda number, place: False,
    others: Sequence[dict[str, Any]] = (),
    epoch_of: Callable[[int], int] = lambda number: 0,
    summed: Callable[[int], bool] = lambda at: False,
    until: int | None = None,
    bin_ns: int = 100 * US,
    name: str = "run-1",
    **run: Any,
) -> None:
    """Returns a recording of SENT by the recorder's clock, without the packets that are LOST (number of the burst and
    index of the packet), and with OTHERS: dicts of at, bytes, source. Senders of the ms in SUMMED have one row."""
    frames = [
        (arrival(one.start_ns + i * 12_304), FRAME, source, epoch_of(one.number))
        for one in sent
        for i in range(one.packets)
        if not lost(one.number, i)
    ]
    frames += [(other["at"], other["bytes"], other["source"], 0) for other in others]
    frames = sorted(frame for frame in frames if until is None or frame[0] < until)
    bins, rows = counted(frames, bin_ns, summed)
    head = {"recording_id": name}
    write(
        store,
        "bins",
        *(
            {
                **head,
                "clock_epoch": epoch,
                "ts_ns": at,
                "bytes": size,
                "wire_bytes": size + 24 * packets,
                "packets": packets,
                "quality": 2,
            }
            for (epoch, at), (size, packets) in bins.items()
        ),
    )
    write(
        store,
        "sources",
        *(
            {
                **head,
                "clock_epoch": epoch,
                "ts_ns": at,
                "source": who,
                "bytes": size,
                "packets": packets,
                "first_ns": first,
                "last_ns": last,
            }
            for (epoch, at, who), (size, packets, first, last) in rows.items()
        ),
    )
    epochs = 1 + max(epoch for epoch, _ in bins)
    write(
        store,
        "recordings",
        {
            **head,
            "bin_ns": bin_ns,
            "start_ns": frames[0][0],
            "end_ns": frames[-1][0],
            "quality": 2,
            "packets": len(frames),
            "clock_epochs": epochs,
            "backend": "afpacket",
            **run,
        },
    )
