"""Records that are counted in place in a mapped file have the same counts as records that are read."""

from __future__ import annotations

import random
import tempfile
from pathlib import Path
from typing import Any

import capture_builder as build
from capture_rows import read_rows
from decode_tool import Frame
from hypothesis import given, settings
from hypothesis import strategies as st
from train_builder import random_frames

from mburst.capture import Capture
from mburst.units import NS_PER_S

HEAD = 8192  # frames that are read first, to infer from
BEGIN_NS = 1_700_000_000 * NS_PER_S


def record(frame: Frame, order: str, unit: int) -> bytes:
    seconds, ns = divmod(frame.ts_ns, NS_PER_S)
    return build.pcap_record(seconds, ns // unit, frame.data, frame.length, order)


def read(path: Path, **options: Any) -> tuple[Any, ...]:
    capture = Capture([str(path)], **options)
    bins, senders = read_rows(capture)
    facts = capture.facts
    return bins, senders, capture.lanes, {**facts, "notice": bool(facts["notice"])}


@settings(deadline=None, max_examples=40)
@given(
    seed=st.integers(0, 2**32),
    unit=st.sampled_from([1, 1000]),
    trouble=st.sampled_from([0.0, 0.05, 0.5]),
    cut=st.sampled_from([0, 1, 20, 70]),
    options=st.fixed_dictionaries(
        {
            "bin_ns": st.sampled_from([10_000, 30_000, 1_000_000]),
            "source_bin_ns": st.sampled_from([70_000, 1_000_000]),
            "window_ns": st.sampled_from([0, 2_000]),
            "inner": st.booleans(),
            "mtu": st.sampled_from([0, 600]),
            "directions": st.sampled_from(["in", "both"]),
        }
    ),
)
def test_counted_in_place_is_counted_as_read(seed: int, unit: int, trouble: float, cut: int, options: dict[str, Any]):
    """A file in the other machine's order is read. Both have the same records, some of them empty or enormous."""
    draw = random.Random(seed)
    [first, *_] = random_frames(draw, 1, 0.0, BEGIN_NS)
    frames = [first] * HEAD + random_frames(draw, 1500, trouble, BEGIN_NS)
    if trouble:
        frames.insert(HEAD + draw.randrange(1500), Frame(bytes(200_000), 200_000, ts_ns=BEGIN_NS))
        frames.insert(HEAD + draw.randrange(1500), Frame(b"", 1000, ts_ns=BEGIN_NS + 10))
    answers = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "capture.pcap")
        for order in "<>":
            magic = build.MAGIC_NS if unit == 1 else build.MAGIC_US
            data = build.pcap_header(order, magic, 1) + b"".join(record(frame, order, unit) for frame in frames)
            path.write_bytes(data[: len(data) - cut])
            answers.append(read(path, **options))
    assert answers[0] == answers[1]
    assert answers[0][0] and answers[0][1]
