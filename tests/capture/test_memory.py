"""Rows that are kept from a reading take only their own memory, however long the reading continues."""

from __future__ import annotations

import ctypes
from collections import deque
from pathlib import Path

import pyarrow as pa
import pytest
from bench_capture import make_capture

from mburst.capture import Capture

libc = ctypes.CDLL(None)
pytestmark = pytest.mark.skipif(not hasattr(libc, "mallinfo2"), reason="needs mallinfo2, of glibc 2.33")


class Heap(ctypes.Structure):
    """struct mallinfo2, mallinfo(3)."""

    _fields_ = [
        (name, ctypes.c_size_t)
        for name in (
            "arena",
            "ordblks",
            "smblks",
            "hblks",
            "hblkhd",
            "usmblks",
            "fsmblks",
            "uordblks",
            "fordblks",
            "keepcost",
        )
    ]


def heap_bytes() -> int:
    """Returns the bytes that the heap has taken from the system, free or not."""
    libc.mallinfo2.restype = Heap
    heap = libc.mallinfo2()
    return int(heap.arena + heap.hblkhd)


@pytest.fixture(scope="module")
def many_senders(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A capture with so many rows of senders that each of a thousand readings has few rows of bins."""
    return make_capture(
        tmp_path_factory.mktemp("memory") / "many.pcap",
        "--packets",
        "1.5M",
        "--sources",
        "50000",
        "--train",
        "1",
        "--snaplen",
        "64",
    )


def test_waiting_rows_take_only_the_memory_that_they_need(many_senders):
    """A writer fills row groups in this way: few bins wait for a long time, and senders wait until there are enough."""
    capture = Capture([str(many_senders)], bin_ns=100_000, source_bin_ns=1_000_000)
    bins, senders, taken = [], deque(maxlen=4), []
    while (rows := capture.read()) is not None:
        for kept, batches in zip((bins, senders), rows, strict=True):
            if len(batches):
                kept.extend(pa.RecordBatchReader.from_stream(batches))
        taken.append(heap_bytes())
    assert len(taken) > 12 and sum(batch.nbytes for batch in bins) < 2_000_000
    assert taken[-1] - taken[6] < 5_000_000
