"""Writes pcap files with nanosecond timestamps (draft-ietf-opsawg-pcap), link type Ethernet."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np

from ...units import NS_PER_S
from .frames import FrameBuilder
from .traffic import Frames

MAGIC_NS, LINKTYPE_ETHERNET, WHOLE_FRAMES = 0xA1B23C4D, 1, 262_144
CHUNK_BYTES = 1 << 25


def write_pcap(path: Path, frames: Frames, builder: FrameBuilder, snaplen: int) -> None:
    """Write frames in their order, cut to `snaplen` bytes unless that is 0."""
    limit = snaplen or WHOLE_FRAMES
    step = max(CHUNK_BYTES // min(limit, int(frames["length"].max(initial=1))), 1)
    with path.open("wb") as file:
        file.write(struct.pack("<IHHiIII", MAGIC_NS, 2, 4, 0, 0, limit, LINKTYPE_ETHERNET))
        for begin in range(0, len(frames), step):
            file.write(_records(frames[begin : begin + step], builder, limit))


def _records(frames: Frames, builder: FrameBuilder, limit: int) -> bytes:
    """Returns record headers and frames of a chunk. Frames of one shape are built together, then placed in their
    order."""
    records = np.empty(len(frames), object)
    shape = frames["payload"] * 256 + frames["kind"]
    for value in np.unique(shape):
        here = np.flatnonzero(shape == value)
        some = frames[here]
        length = int(some["length"][0])
        captured = min(length, limit)
        rows = np.empty((len(some), 16 + captured), np.uint8)
        fields = [some["ts_ns"] // NS_PER_S, some["ts_ns"] % NS_PER_S, np.full((2, len(some)), [[captured], [length]])]
        rows[:, :16] = np.vstack(fields).T.astype("<u4", order="C").view(np.uint8)
        rows[:, 16:] = builder.build(some, captured)
        records[here] = rows.view(f"V{16 + captured}").ravel().tolist()
    return b"".join(records.tolist())
