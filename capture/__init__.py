"""Frames in, bins out: the C engine.

`Capture` is documented in _engine.pyi; the engine's own contracts stand in the headers beside it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ._engine import (
    Capture,
    Frames,
    Rows,
    clock_synchronized,
    device,
    give_up,
    pcapng_interface,
    pcapng_packet,
    pcapng_section,
    sources,
)

if TYPE_CHECKING:
    from ._engine import Device, Facts, Frame, Interface, Kept, Lane, SourceState

__all__ = [
    "Capture",
    "Device",
    "Facts",
    "Frame",
    "Frames",
    "Interface",
    "Kept",
    "Lane",
    "Rows",
    "SourceState",
    "clock_synchronized",
    "device",
    "give_up",
    "pcapng_interface",
    "pcapng_packet",
    "pcapng_section",
    "sources",
]
