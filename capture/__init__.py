"""Frames in, bins out: the C engine.

`Capture` is documented in _engine.pyi; the headers beside this file have the contracts of the engine's own functions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ._engine import (
    Capture,
    CapturedFrames,
    Rows,
    backends,
    clock_synchronized,
    device,
    end_without_memory,
    give_up,
    pcapng_interface,
    pcapng_packet,
    pcapng_section,
)

if TYPE_CHECKING:
    from ._engine import BackendState, CapturedInterface, Device, Facts, Frame, Kept, Lane

__all__ = [
    "BackendState",
    "Capture",
    "CapturedFrames",
    "CapturedInterface",
    "Device",
    "Facts",
    "Frame",
    "Kept",
    "Lane",
    "Rows",
    "backends",
    "clock_synchronized",
    "device",
    "end_without_memory",
    "give_up",
    "pcapng_interface",
    "pcapng_packet",
    "pcapng_section",
]
