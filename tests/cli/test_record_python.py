"""Interfaces that mburst.record records in this process, and files that PF_RING replays."""

from __future__ import annotations

import os
import socket
import struct
import subprocess
import sys
import threading

import livelab
import pytest
from liverecording import send, store

import mburst
from mburst.sql import StoreFolder

__all__ = ["store"]


def test_a_file_replayed_by_pfring_gives_the_rows_of_the_file(tmp_path, store):
    """Its `pcap:` device replays a file in µs: bins, senders and the inferred direction are those of the file."""
    pfring = livelab.build_pfring()
    file = tmp_path / "made.pcap"
    with file.open("wb") as out:
        out.write(struct.pack("=IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1))
        for i in range(3000):
            mac = bytes([2, 0, 0, 0, 0, 1 + i % 5])
            frame = (b"\x02\0\0\0\0\xff" + mac + b"\x88\xb5").ljust(60 + i % 900, b"\0")
            out.write(struct.pack("=IIII", 1_700_000_000 + i // 1000, i % 1000 * 1000, len(frame), len(frame)) + frame)
    for name, arguments in (("file", [str(file)]), ("pfring", [f"pcap:{file}", "--backend", "pfring"])):
        subprocess.run(
            [sys.executable, "-m", "mburst", "record", *arguments, "-o", str(store / name), "--link", "1G"],
            check=True,
            capture_output=True,
            env={**os.environ, "MBURST_PFRING_LIB": str(pfring)},
        )
    stores = [StoreFolder.open(store / name).connect() for name in ("file", "pfring")]
    for sql in (
        "SELECT ts_ns, direction, bytes, packets FROM bins ORDER BY ALL",
        "SELECT ts_ns, source, bytes, packets FROM sources ORDER BY ALL",
    ):
        by_file, by_pfring = [con.execute(sql).fetchall() for con in stores]
        assert by_file == by_pfring and by_file
    assert stores[1].execute("SELECT DISTINCT backend, clock FROM recordings").fetchall() == [
        ("pfring", "file, 1 µs or coarser")
    ]


def test_an_interface_by_python_until_an_event(lab, sender, store):
    """mburst.record in this process: the rows that another thread reads from the store meanwhile are those of the
    result."""
    stop, seen = threading.Event(), []

    def watch() -> None:
        try:
            for _ in range(200):
                send(lab, sender, 500)
                if (store / "mburst.json").exists() and mburst.open(store).sql("FROM bins").num_rows:
                    break
            seen.extend(mburst.open(store).recordings(direction="in").to_pylist())
        finally:
            stop.set()

    watching = threading.Thread(target=watch)
    watching.start()
    try:
        with lab.inside(lab.far):
            done = mburst.record(
                lab.b, store, filter="ether proto 0x88b5", stop=stop, link="1G", bin="1ms", host="cache", rack="r1"
            )
    finally:
        stop.set()
        watching.join()
    [row] = [row for row in done.rows if row["direction"] == "in"]
    bins = done.store.utilization(direction="in").to_pylist()
    assert [one["recording_id"] for one in seen] == [row["recording_id"]]
    assert row["packets"] == sum(one["packets"] for one in bins) >= 1 and row["packets"] >= seen[0]["packets"]
    assert (row["bytes"], row["wire_bytes"]) == (500 * row["packets"], 524 * row["packets"])
    assert (row["host"], row["rack"], row["link_bps"], row["bin_ns"]) == ("cache", "r1", 10**9, 10**6)
    assert row["complete"] and row["ended"] == "finished" and row["dropped"] == 0 and done.new
    assert done.table().num_rows == len(done.rows) == mburst.open(store).recordings().num_rows


def test_an_interface_by_python_for_a_while(lab, store):
    with lab.inside(lab.far):
        done = mburst.record(lab.b, store, duration="200ms", direction="in", link="1G")
    [row] = done.rows
    assert row["complete"] and row["interface"] == lab.b and row["host"] == socket.gethostname()
    with pytest.raises(mburst.UsageError, match="the duration of the recording is missing"), lab.inside(lab.far):
        mburst.record(lab.b, store)
