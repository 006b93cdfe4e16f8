"""Labelled cases (latency_cases.py) as rows of a store."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
from latency_cases import Case
from storelib import DEFAULTS, write

from mburst.sql import StoreFolder
from mburst.sql.tables import arrow_schema as schema

ORIGIN = 1_700_000_000_000_000_000
LANE = {"recording_id": "r", "host": "h", "rack": "a", "interface": "eth0", "direction": "in"}


def store_case(
    folder: Path, case: Case, columns: dict[str, np.ndarray] | None = None, **recording: object
) -> StoreFolder:
    """Writes a simulated case as rows; every burst comes from the same eight senders. columns: numbers of the bins in
    which a column counts one packet. recording: columns of its row."""
    store = StoreFolder.create(folder)
    add_case(store, case, columns, **recording)
    return store


def add_case(
    store: StoreFolder,
    case: Case,
    columns: dict[str, np.ndarray] | None = None,
    lane: dict[str, str] = LANE,
    origin: int = ORIGIN,
    **recording: object,
) -> None:
    """Writes the same to an existing store, for another lane, or at another time."""
    port, probes = case.scene.crossings[0].port, case.scene.probes
    bytes_ = np.diff(port.carried)
    columns = columns or {}
    used = np.union1d(np.flatnonzero(bytes_), np.concatenate([np.zeros(0, dtype=int), *columns.values()]))
    write(
        store,
        "recordings",
        {
            **lane,
            "link_bps": int(port.link_bps),
            "bin_ns": port.bin_ns,
            "start_ns": origin,
            "end_ns": origin + port.bins * port.bin_ns,
            **recording,
        },
    )
    n = len(used)
    rows = {
        **{key: [value] * n for key, value in lane.items()},
        "ts_ns": origin + used * port.bin_ns,
        "wire_bytes": bytes_[used],
        "bytes": bytes_[used] - bytes_[used] // 70,
    }
    numbers = ("packets", "ce_packets", "retransmits", "clock_epoch", "quality")
    with store.writer("bins", lane["host"], lane["rack"]) as writer:
        table = pa.table(
            {
                **rows,
                **{name: np.full(n, DEFAULTS[name]) for name in numbers},
                **{name: np.isin(used, at).astype(int) for name, at in columns.items()},
            }
        )
        writer.append(table.cast(pa.schema([schema("bins").field(name) for name in table.column_names])))
    write(store, "sources", *burst_sources(case, lane, origin))
    write_probes(store, case, lane["host"], origin)
    assert len(probes)


def burst_sources(case: Case, lane: dict[str, str] = LANE, origin: int = ORIGIN) -> list[dict[str, object]]:
    found = []
    for begin, end in zip(*case.scene.bursts[0], strict=True):
        for ms in range(int(begin // 1e6), int(end // 1e6) + 1):
            first = max(begin, ms * 1e6)
            last = min(end, (ms + 1) * 1e6) - 1
            if last > first:
                found += [
                    {
                        **lane,
                        "ts_ns": origin + ms * 10**6,
                        "source": f"10.0.0.{k + 1}",
                        "bytes": 9_000,
                        "packets": 6,
                        "first_ns": origin + int(first),
                        "last_ns": origin + int(last),
                    }
                    for k in range(8)
                ]
    return found


def write_probes(store: StoreFolder, case: Case, host: str = LANE["host"], origin: int = ORIGIN) -> None:
    """Writes its probes; HOST replaces the name of its host."""
    probes = case.scene.probes
    src, dst = (host if name == LANE["host"] else name for name in (probes.src, probes.dst))
    names = {
        "app_send_ns": probes.app_send,
        "tx_ns": probes.tx,
        "remote_rx_ns": probes.remote_rx,
        "remote_tx_ns": probes.remote_tx,
        "rx_ns": probes.rx,
        "app_recv_ns": probes.app_recv,
    }
    n = len(probes)
    table = {
        name: pa.array(np.nan_to_num(values).astype(np.int64) + origin, mask=np.isnan(values))
        for name, values in names.items()
    }
    table["rtt_ns"] = pa.array(np.nan_to_num(probes.rtt).astype(np.int64), mask=np.isnan(probes.rtt))
    words = {"batch": "b", "src": src, "dst": dst, "protocol": probes.protocol, "stamp_kind": "sw"}
    table |= {
        "seq": pa.array(np.arange(n)),
        "lost": pa.array(probes.lost),
        **{key: pa.array([value] * n) for key, value in words.items()},
    }
    with store.writer("probes") as writer:
        writer.append(pa.table(table))
