"""The programs that the benchmark compares do the same work, and reading a capture takes memory independent of its
size."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from bench_capture import BENCH, make_capture
from building import linked

REPEATS = 40  # of a capture of 8 MB
BOUND_KIB = 150 * 1024  # half of the file, including the interpreter and the engine's tables


def answer(*command: str | Path) -> dict[str, int]:
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


@pytest.mark.parametrize("train", ["1", "16"])
def test_libpcap_loop_counts_what_the_engine_counts(tmp_path: Path, train: str) -> None:
    loop = linked(("bench/libpcap_loop.c",))
    capture = make_capture(tmp_path / "a.pcap", "--packets", "100k", "--train", train, "--sources", "200")
    theirs, ours = answer(loop, "bins", capture), answer(sys.executable, BENCH / "bench_engine.py", "--engine", capture)
    for name in ("packets", "bytes", "wire_bytes", "ce_packets", "retransmits", "bins", "senders"):
        assert ours[name] == theirs[name] > 0, name


def test_memory_does_not_grow_with_the_file(tmp_path: Path) -> None:
    small = make_capture(tmp_path / "a.pcap", "--packets", "75k").read_bytes()
    head, records = small[:24], small[24:]
    if shutil.disk_usage(tmp_path).free < (REPEATS + 10) * len(records):
        pytest.skip(f"less than {(REPEATS + 10) * len(records) >> 20} MiB free at {tmp_path}")
    large = tmp_path / "large.pcap"
    with large.open("wb") as out:
        out.write(head)
        for _ in range(REPEATS):
            out.write(records)
    try:
        assert large.stat().st_size > 2 * BOUND_KIB * 1024
        read = answer(sys.executable, BENCH / "bench_engine.py", "--engine", large)
        assert read["packets"] == REPEATS * 75_000
        assert read["peak_kib"] < BOUND_KIB
    finally:
        large.unlink()
