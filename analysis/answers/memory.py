"""The memory that an investigation needs, known before it is allocated: it holds each bin and probe of its time."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ...errors import MburstError
from ...machine import available_memory
from ...units import format_bytes

BIN_BYTES, PROBE_BYTES = 12, 800  # bench/bench_investigate.py measures 9 and 720
SHARE = 0.6  # of the free memory, so that an investigation does not stop a recorder
_STEPS = ((3600, "h"), (60, "m"), (1, "s"))


class NoRoom(MburstError):
    """Memory has no room for the arrays of an investigation."""


def needed_bytes(bins: int, probes: int) -> int:
    """Returns the bytes that an investigation of BINS bins and PROBES probes holds."""
    return bins * BIN_BYTES + probes * PROBE_BYTES


def hold_to_memory(chosen: Iterable[Iterable[Mapping[str, Any]]], probes: int, span: tuple[int, int]) -> None:
    """Refuse an investigation that does not fit into memory. CHOSEN has the intervals (first_ns, end_ns, bin_ns) of
    each port direction, PROBES is the number of probes; both are of the time SPAN. Raises NoRoom, which names a length
    of time that fits."""
    bins = sum(
        (recording["end_ns"] - recording["first_ns"]) // recording["bin_ns"]
        for recordings in chosen
        for recording in recordings
    )
    needed, most = needed_bytes(bins, probes), int(available_memory() * SHARE)
    if needed <= most:
        return
    seconds = (span[1] - span[0]) / 1e9 * most / needed
    text = next((f"{int(seconds // length)}{unit}" for length, unit in _STEPS if seconds >= length), "1s")
    raise NoRoom(
        f"{bins:,} bins and {probes:,} probes take {format_bytes(needed)} of memory, and an investigation may take "
        f"{format_bytes(most)}",
        f"investigate less at a time: --since {text}, or a host's with --host",
    )
