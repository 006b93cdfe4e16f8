"""SIGSTOP of recorders and of readers: missed packets are counted, and a reader continues where it was."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

from bounded import next_line
from faultlib import HERE, end, query, times
from labrecorder import received, recording, sending
from livelab import Lab
from outcomes import outcome
from waiting import wait_for

from mburst.sql import StoreFolder


def test_a_recorder_is_stopped(lab: Lab, tmp_path: Path) -> None:
    """More arrives than its ring can hold: the packets in bins and the dropped ones are all that arrived."""
    store = StoreFolder.create(tmp_path / "store").path
    for _ in times(1):
        before = received(lab)
        with recording(lab, store, "--ring", "256KiB") as process:
            with sending(lab, 20_000):
                time.sleep(0.5)
                process.send_signal(signal.SIGSTOP)
                time.sleep(1)
                process.send_signal(signal.SIGCONT)
                time.sleep(0.5)
            came = received(lab) - before
            assert end(process, signal.SIGTERM)[0] == 0
        [(packets, dropped)] = query(store, "SELECT packets, dropped FROM recordings ORDER BY written_ns DESC LIMIT 1")
        assert dropped > 0 and packets + dropped == came
    outcome(
        "record live, stopped for 1 s (SIGSTOP)",
        len(times(1)),
        f"bins and dropped are all {came:,} packets of the interface's counter",
    )


def test_a_reader_is_stopped(lab: Lab, tmp_path: Path) -> None:
    """The writer rolls and seals meanwhile. The reader gets every row once when it continues."""
    store = StoreFolder.create(tmp_path / "store").path
    reader = subprocess.Popen(
        [sys.executable, str(HERE / "reader.py"), str(store)], stdout=subprocess.PIPE, text=True, stdin=subprocess.PIPE
    )
    assert reader.stdout and reader.stdin
    try:
        assert next_line(reader) == "follows\n"
        with sending(lab), recording(lab, store, roll_s=0.3) as process:
            time.sleep(0.5)
            for _ in times(1):
                reader.send_signal(signal.SIGSTOP)
                time.sleep(1)
                reader.send_signal(signal.SIGCONT)
                time.sleep(0.2)
            assert end(process, signal.SIGTERM)[0] == 0
        reader.stdin.close()  # it may end when everything was reported
        output = reader.stdout.read().split()
        assert reader.wait(60) == 0
    finally:
        reader.kill()
        reader.wait()
    [(count, packets)] = query(store, "SELECT count(*), sum(packets) FROM bins")
    assert output == [str(count), str(packets)] and count > 0
    outcome("a reader stopped while segments roll", len(times(1)), f"follows all {count:,} bins, once each")


def test_queries_beside_a_stopped_recorder(lab: Lab, tmp_path: Path) -> None:
    store = StoreFolder.create(tmp_path / "store").path
    with sending(lab), recording(lab, store) as process:
        wait_for(lambda: query(store, "SELECT count(*) > 0 FROM bins") == [(True,)], "bins")
        process.send_signal(signal.SIGSTOP)
        before = query(store, "SELECT count(*), sum(packets) FROM bins")
        with recording(lab, store, "--host", "other", "--duration", "500ms") as other:
            assert end(other)[0] == 0
        [(count, packets)] = query(store, "SELECT count(*), sum(packets) FROM bins WHERE host = 'cache'")
        assert (count, packets) == before[0]
        process.send_signal(signal.SIGCONT)
        assert end(process, signal.SIGTERM)[0] == 0
    assert query(store, f"SELECT sum(packets) > {packets} FROM bins WHERE host = 'cache'") == [(True,)]
    outcome("a recorder stopped while another ends", 1, "its log is left alone, and goes on")
