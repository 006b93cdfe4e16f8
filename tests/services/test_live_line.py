"""The live line counts the bursts that `mburst bursts` detects, however the bins arrive."""

from __future__ import annotations

import fcntl
import os
import pty
import random
import struct
import subprocess
import sys
import termios

import pyarrow as pa
import pytest

from mburst.analysis.bursts.find import find_bursts
from mburst.cli.live import DroppedPackets
from mburst.services.record.live_line import BurstCount, LiveLine
from mburst.services.record.recording import RecordProgress, RecordSettings
from mburst.sql import in_memory
from mburst.sql.tables import arrow_schema

LINK_BPS, BIN_NS, START_NS = 10**9, 100_000, 1_700_000_000_000_000_000
FULL = LINK_BPS * BIN_NS // 8 // 10**9


def run_row():
    row = {field.name: "" if pa.types.is_string(field.type) else 0 for field in arrow_schema("recordings")}
    return {
        **row,
        "recording_id": "r-0",
        "link_bps": LINK_BPS,
        "bin_ns": BIN_NS,
        "source_bin_ns": 1_000_000,
        "complete": False,
    }


def bins(numbers):
    rows = [
        {
            "recording_id": "r-0",
            "host": "h",
            "rack": "k",
            "interface": "e",
            "direction": "in",
            "clock_epoch": 0,
            "ts_ns": START_NS + number * BIN_NS,
            "bytes": FULL,
            "wire_bytes": FULL,
            "packets": 10,
            "ce_packets": 0,
            "retransmits": 0,
            "quality": 2,
        }
        for number in numbers
    ]
    return pa.Table.from_pylist(rows, schema=arrow_schema("bins")).to_batches()[0]


@pytest.mark.parametrize("seed", range(5))
def test_bursts_are_counted_once_when_they_end(seed):
    choose = random.Random(seed)
    numbers, at = [], 0
    for _ in range(200):
        at += choose.choice([1, 1, 1, 3, 6, 7, 40])
        numbers.append(at)
    count, cuts = BurstCount(), sorted(choose.sample(range(1, 200), 12))
    for begin, end in zip([0, *cuts], [*cuts, 200], strict=True):
        count.add([bins(numbers[begin:end])], [run_row()])
    count.add([bins([at + 1000])], [run_row()])
    con = in_memory()
    con.register("bins", pa.Table.from_batches([bins(numbers)]))
    con.register("recordings", pa.Table.from_pylist([run_row()], schema=arrow_schema("recordings")))
    assert count.count == len(find_bursts(con))


@pytest.mark.parametrize(
    ("columns", "expected"),
    [(40, "1,234 packets, 8 Mb/s"), (22, "1,234 packets, 8 Mb/s"), (21, "1,234 packets, 8 Mb…"), (2, "…"), (1, "")],
)
def test_a_progress_line_stays_in_one_row_of_the_terminal(columns: int, expected: str) -> None:
    """Otherwise the text in the second row would remain each time."""
    terminal, end = pty.openpty()
    fcntl.ioctl(end, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    script = "from mburst.messages import print_progress; print_progress('1,234 packets, 8 Mb/s')"
    subprocess.run([sys.executable, "-c", script], stderr=end, check=True, timeout=60)
    assert os.read(terminal, 1000).decode() == f"\r\033[K{expected}"
    os.close(terminal)
    os.close(end)


def test_the_line_lists_each_of_several_interfaces(capsys, monkeypatch):
    clock = iter([100.0, 100.1, 102.0])
    monkeypatch.setattr("mburst.services.record.live_line.time.monotonic", lambda: next(clock))
    recordings = [RecordSettings([name]) for name in ("eth0", "eth1")]
    line = LiveLine(recordings)
    for recording, wire, dropped in ((0, 0, 0), (1, 0, 0), (0, 250_000_000, 7)):
        row = {"link_bps": 2 * 10**9}
        line.show(
            RecordProgress(recordings[recording], 1, 0, [{"wire_bytes": wire}], {"dropped": dropped}, None, [row])
        )
    last = capsys.readouterr().err.split("\r\033[K")[-1]
    assert last == "eth0 1 Gb/s (50 %), 0 bursts, 7 dropped; eth1 0 b/s (0 %), 0 bursts"


def test_a_live_view_counts_losses_by_recording():
    dropped = DroppedPackets()
    for name, packets, ids in (("eth0", 5, ["a"]), ("eth1", 2, ["c"]), ("eth0", 7, ["a", "b"])):
        rows = [{"recording_id": one} for one in ids]
        dropped.look(RecordProgress(RecordSettings([name]), 1, 0, [], {"dropped": packets}, None, rows))
    assert dropped.by_recording() == {"a": 7, "b": 7, "c": 2}
