"""The prober's storing thread bounds the probes that it holds while the disk stalls."""

from __future__ import annotations

import threading
from array import array

from mburst.services import prober
from mburst.sql import StoreFolder
from mburst.telemetry.probe.exchanges import SettledProbes

NAMES = {"batch": "b", "src": "a", "dst": "b", "protocol": "udp"}


def settled(first: int, count: int) -> SettledProbes:
    """Returns COUNT answered probes."""
    stamps = [array("q", [1_790_000_000_000_000_000 + i * 1000 for i in range(first, first + count)])] * 7
    return SettledProbes(first, *stamps, array("q", [0] * count), array("b", [1] * count), array("b", [1] * count))


def test_probes_that_wait_for_the_disk_are_bounded_and_the_rest_is_counted(tmp_path, monkeypatch):
    monkeypatch.setattr(prober, "MOST_WAITING", 100)
    monkeypatch.setattr(prober, "_GATHER_S", 0.01)
    store = StoreFolder.create(tmp_path / "store")
    keeper = prober.ProbeKeeper(store, lambda: None)
    stalled, go, append = threading.Event(), threading.Event(), keeper._writer.append

    def slow(rows):
        stalled.set()
        go.wait()
        append(rows)

    monkeypatch.setattr(keeper._writer, "append", slow)
    keeper.take(settled(0, 10), NAMES)
    stalled.wait()
    for i in range(1, 30):
        keeper.take(settled(10 * i, 10), NAMES)
    assert keeper.dropped == 200  # of 300: 100 wait, including those that are being written
    go.set()
    keeper.close()
    with store.connect() as con:
        assert con.execute("SELECT count(*), min(seq), max(seq) FROM probes").fetchone() == (100, 0, 99)
