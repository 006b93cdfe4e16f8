"""The bytes that Ethernet frames take on the wire (IEEE 802.3): a frame is padded to 60 bytes, and every frame has an
FCS of 4, a preamble of 8 and a gap of 12 bytes. Lengths of frames are without these, unless they are named wire bytes.
capture/protocols.h has the same numbers."""

from __future__ import annotations

SHORTEST_FRAME_BYTES = 60
FULL_FRAME_BYTES = 1514  # of the largest standard frame without a tag
FRAME_OVERHEAD_BYTES = 24
FULL_FRAME_WIRE_BYTES = FULL_FRAME_BYTES + FRAME_OVERHEAD_BYTES


def on_wire(frame_bytes: int, frames: int = 1) -> int:
    """Returns the bytes on the wire of FRAMES frames, none of them padded, which have FRAME_BYTES together."""
    return frame_bytes + FRAME_OVERHEAD_BYTES * frames
