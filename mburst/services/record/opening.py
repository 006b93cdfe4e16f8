"""Opens the engine on the input of a recording."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ...process import privileges
from . import pins
from .recording import RecordSettings, own_addresses

if TYPE_CHECKING:
    from ...capture import Capture


def check(recording: RecordSettings) -> None:
    """Raise ValueError if the engine refuses the options of RECORDING for every input."""
    nothing = replace(
        recording, targets=[os.devnull], backend="file", filter="", live=replace(recording.live, pin=False)
    )
    open_capture(nothing, {}).close()


def open_capture(recording: RecordSettings, keeping: dict[str, Any]) -> Capture:
    """Open the engine on the input of RECORDING, with the options of PacketKeeper. Raises MburstError and
    ValueError."""
    from ...capture import Capture

    live = recording.live
    with privileges.raised():
        if live.pin:
            pins.remove_stale()
        return Capture(
            recording.targets,
            bin_ns=recording.bin_ns,
            source_bin_ns=recording.source_bin_ns,
            window_ns=recording.window_ns,
            directions=recording.direction,
            local=own_addresses(recording),
            max_sources=recording.max_sources,
            sources_above_ppb=recording.sources_above_ppb or 0,
            link_bps=recording.link_bps or 0,
            inner=recording.inner,
            mtu=recording.mtu,
            spread_bps=(recording.link_bps or 0) if recording.spread else 0,
            backend=None if recording.backend == "auto" else recording.backend,
            filter=recording.filter or None,
            snaplen=live.snaplen,
            threads=recording.threads,
            ring_bytes=live.ring_bytes,
            stamps=live.stamps,
            hook="xdp-generic" if live.hook == "xdp" and live.force else live.hook,
            pins=live.pin,
            pin_group=privileges.group(),
            promiscuous=live.promiscuous,
            cluster=live.cluster,
            beside=live.beside,
            **keeping,
        )
