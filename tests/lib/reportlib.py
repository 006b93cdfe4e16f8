"""A store that has everything that a report can show, and its report."""

from __future__ import annotations

from pathlib import Path

from storelib import write

from mburst.analysis.answers.host import Limits, gather
from mburst.analysis.answers.lane_report import LaneReport
from mburst.analysis.answers.lanes import detect, lanes
from mburst.analysis.answers.paths import ProbeSelection, read_met
from mburst.analysis.bursts.find import BurstDefinition
from mburst.dashboards.report import page
from mburst.sql import StoreFolder

BIN = 100_000  # ns
FULL = 12_500  # wire bytes of a bin at 1 Gb/s
START = 1_795_228_440_000_000_000
SHORT = 137_000  # the bin at which a burst of two bins, 200 µs, begins
LONG = 50_000  # and one of 300 bins, 30 ms
SECONDS = 20
PROBE = 10**7  # ns from one probe to the next
HOSTILE = "</script><img src=x onerror=alert(1)>"


def wire() -> dict[int, int]:
    """Returns the wire bytes of each non-empty bin, by its number."""
    found = {i: 84 + i % 700 for i in range(0, SECONDS * 10_000, 97)}
    found |= {i: FULL - i % 3 for i in range(LONG, LONG + 300)}
    return found | {SHORT: FULL, SHORT + 1: 9000}


def fill(store: StoreFolder, hostile: bool = False, **run: object) -> None:
    """Fills a store with 20 s of quiet traffic with a burst of 30 ms from four senders and one of 200 µs from one;
    probes and a queue."""
    bins = wire()
    names = {"host": HOSTILE, "rack": HOSTILE, "interface": HOSTILE} if hostile else {}
    source = HOSTILE if hostile else "2001:db8::1"
    write(
        store,
        "recordings",
        {
            "start_ns": START,
            "end_ns": START + SECONDS * 10**9 - 1,
            "bin_ns": BIN,
            "packets": len(bins),
            "bytes": sum(bins.values()),
            "notes": HOSTILE if hostile else "",
            **names,
            **run,
        },
    )
    write(
        store,
        "bins",
        *(
            {"ts_ns": START + i * BIN, "wire_bytes": bytes_, "bytes": bytes_ - 24, "quality": 2, **names}
            for i, bytes_ in bins.items()
        ),
    )
    senders = [(LONG * BIN + ms * 10**6, f"10.0.0.{sender}", 31_000) for ms in range(30) for sender in range(1, 5)]
    senders.append((SHORT * BIN, source, 21_000))
    write(
        store,
        "sources",
        *(
            {
                "ts_ns": START + at,
                "source": name,
                "bytes": sent,
                "packets": 20,
                **names,
                "first_ns": START + at,
                "last_ns": START + at + 190_000,
            }
            for at, name, sent in senders
        ),
    )
    fill_context(store, hostile)


def fill_context(store: StoreFolder, hostile: bool) -> None:
    """Adds the probes and the queue of these 20 s: a lost probe, a late one, and a full queue."""
    write(
        store,
        "probes",
        *(
            {
                "seq": i,
                "src": HOSTILE if hostile else "api",
                "dst": "cache-1",
                "lost": i == 1000,
                "tx_ns": START + i * PROBE + 3,
                "rx_ns": None if i == 1000 else START + i * PROBE + 20_000 + i % 7 + 10**7 * (i == 500),
            }
            for i in range(SECONDS * 100)
        ),
    )
    write(
        store,
        "queues",
        *(
            {
                "window_start_ns": START + i * 10**7,
                "ts_ns": START + (i + 1) * 10**7,
                **({"device": HOSTILE} if hostile else {}),
                "max_bytes": 3_000_000 if i == 500 else 0,
                "semantics": "max-since-last",
            }
            for i in range(SECONDS * 100)
        ),
    )


def fill_apart(store: StoreFolder, between_ns: int) -> list[int]:
    """Adds two recordings of a second, the second one BETWEEN_NS after the first, each with a burst of 2 ms after 0.1
    s; the burst of the second one is larger. Returns when they begin."""
    begins = [START, START + between_ns]
    for number, begin in enumerate(begins):
        name = {"recording_id": f"apart-{number}"}
        write(store, "recordings", {**name, "start_ns": begin, "end_ns": begin + 10**9 - 1, "bin_ns": BIN})
        sent = [FULL - 2000 * (1 - number) if 1000 <= i < 1020 else 900 for i in range(10_000)]
        write(
            store,
            "bins",
            *({**name, "ts_ns": begin + i * BIN, "wire_bytes": n, "bytes": n} for i, n in enumerate(sent)),
        )
    return begins


def gathered(
    store: StoreFolder, definition: BurstDefinition | None = None, limits: Limits | None = None
) -> list[LaneReport]:
    """Returns the report of everything in a store."""
    con = store.connect()
    chosen = lanes(con)
    return gather(con, chosen, detect(con, chosen, definition or BurstDefinition()), limits=limits)


def written(store: StoreFolder, folder: Path, limits: Limits | None = None) -> Path:
    """Writes the page of everything in a store."""
    probed = read_met(store.connect(), ProbeSelection())
    return page.write(gathered(store, limits=limits), BurstDefinition(), folder, probed)[0]
