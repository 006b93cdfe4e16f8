"""What mypy and pyright say of a program that uses mburst: lines that are wrong are marked. It is never run."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import mburst

with mburst.open(Path("store")) as store:
    wanted: mburst.asked.BurstOptions = {"bin": "1ms", "threshold": 0.8, "since": datetime(2026, 11, 20, tzinfo=UTC)}
    rows: int = store.bursts(**wanted).num_rows
    store.senders(**wanted)
    store.senders(host=["a", "b"])
    store.bursts(thresold=0.8)  # type: ignore[call-arg]
    store.bursts(bin=0.5)  # type: ignore[arg-type]
    store.bursts(direction="sideways")  # type: ignore[arg-type]
    found: mburst.Investigation = store.investigate(host="cache", tail="1ms", link=10**9)
    cause: str = found.cause
    number: int = found.cause  # type: ignore[assignment]
    predicted: mburst.WhatIf = found.what_if(link="10G", priority=True)
    found.what_if(link=None, stagger=1.5)  # type: ignore[arg-type]
    page: Path = store.report(host="cache").write("out").page
    store.rack_report("r1", last="year")  # type: ignore[arg-type]
    verdict: str = store.compare("other", a={"since": "1h"}, slow="1ms").verdict
    newest: int | None = store.newest_ns
    paths: list[str] = [file.path for file in store.damage]

recorded: mburst.Recorded = mburst.record(["a.pcap", Path("b.pcap")], "store", link="10G", direction="in")
mburst.record("a.pcap", "store", direction="up")  # type: ignore[arg-type]
added: int = mburst.import_csv("probes", "probes.csv", "store").added
mburst.import_csv("bins", "probes.csv", "store")  # type: ignore[arg-type]
rounds: list[tuple[int, int]] = mburst.demo(seed=2).rounds
quality: bool = bool(mburst.Quality.DROPS)
