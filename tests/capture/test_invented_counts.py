"""Impossible counts: the author of a capture, and a switch, may state any 64 bits. Such a count is wrong only for its
own source, and ends neither a recording nor a query. A small capture does not become a large store either."""

from __future__ import annotations

from pathlib import Path

import capture_builder as build
import pytest
from capture_builder import Interface
from frames import START_NS, Frame, write_pcap
from storelib import rows

from mburst.__main__ import main
from mburst.sql import StoreFolder

LARGEST, DAY_NS = 2**63 - 1, 86_400 * 10**9
SAID = (2**64 - 1, 2**63, 2**63 - 1, 2**62 + 1)


def capture(path: Path, drops: int) -> Path:
    """Writes packets of one interface with statistics that report DROPS more as lost."""
    data = build.section() + Interface(resolution=9).block()
    for number in range(20):
        data += build.enhanced(0, START_NS + number * 10**6, Frame(START_NS, 1, 100).data(), length=2**32 - 1)
    path.write_bytes(data + build.statistics(0, START_NS + 10**9, [(5, drops), (7, drops)]))
    return path


def ask(*arguments: object) -> int:
    return main([str(argument) for argument in arguments])


@pytest.fixture
def store(tmp_path):
    """A store with recordings of captures that report more losses than can be counted, each alone and all in one."""
    files = [capture(tmp_path / f"e{number}.pcapng", drops) for number, drops in enumerate(SAID)]
    for number, named in enumerate([*([file] for file in files), files]):
        assert ask("record", *named, "-o", tmp_path / "store", "--host", f"h{number % 2}", "--link", "10G") == 0
    return StoreFolder.open(tmp_path / "store")


def test_losses_stated_by_a_file_are_capped_at_what_a_row_can_hold(store, tmp_path):
    with store.connect() as con:
        assert {dropped for (dropped,) in con.execute("SELECT dropped FROM recordings").fetchall()} == {LARGEST}
        assert con.execute("SELECT max(dropped) FROM coverage").fetchone() == (LARGEST,)
    for verb in (
        ["bursts", store.path],
        ["investigate", store.path],
        ["report", store.path, "-o", tmp_path / "out"],
        ["report", store.path, "--rack", "unknown", "-o", tmp_path / "out"],
    ):
        assert ask(*verb) == 0, verb


def test_impossible_counts_of_queues_are_flagged_and_end_no_query(store, tmp_path):
    """Each window has one impossible count: of a queue, or one that no port can have."""
    window = {
        "batch": "b",
        "device": "s",
        "port": "e1",
        "queue": "0",
        "semantics": "gauge",
        "max_bytes": 10,
        "avg_bytes": 5,
        "transmit_bytes": 1000,
        "dropped_packets": 7,
        "ecn_marked_packets": 1,
        "quality": 0,
    }
    at = [
        {
            "window_start_ns": START_NS + i * 10**6,
            "ts_ns": START_NS + (i + 1) * 10**6,
            "receive_ns": START_NS + (i + 1) * 10**6,
        }
        for i in range(12)
    ]
    invented = [{key: LARGEST} for key in window if key.endswith(("_bytes", "_packets"))]
    with store.writer("queues") as writer:
        writer.append(
            rows(
                "queues",
                *({**window, **when, **more} for when, more in zip(at, [{}, *invented, *invented], strict=False)),
            )
        )
    with store.connect() as con:
        assert con.execute("SELECT count(*), sum(dropped_packets) FROM queue_windows").fetchone() == (1, 7)
        assert con.execute("SELECT total(n) FROM (VALUES (NULL::BIGINT)) t(n)").fetchone() == (None,)
        assert con.execute("SELECT total(n) FROM (VALUES (3), (NULL), (-5)) t(n)").fetchone() == (-2,)
    for verb in (
        ["sql", store.path, "queue_depths"],
        ["report", store.path, "-o", tmp_path / "out"],
        ["report", store.path, "--rack", "unknown", "-o", tmp_path / "out"],
        ["investigate", store.path],
    ):
        assert ask(*verb) == 0, verb


@pytest.mark.parametrize("apart_ns", [DAY_NS // 3, DAY_NS, 9 * DAY_NS])
def test_a_small_capture_makes_a_small_store(tmp_path, apart_ns):
    """One packet a day does not make a folder for each day (5,000 once made 10,002 files of 118 MB)."""
    frames = [Frame(START_NS + number * apart_ns, 1 + number % 999, 64) for number in range(1000)]
    file = write_pcap(tmp_path / "days.pcap", frames)
    assert ask("record", file, "-o", tmp_path / "store", "--host", "h", "--link", "10G") == 0
    made = list((tmp_path / "store").rglob("*"))
    assert len(made) < 60
    assert sum(path.stat().st_size for path in made if path.is_file()) < 200_000 + 2 * file.stat().st_size
