"""The series and bursts of a lane for the scripts of a page. Times are nanoseconds since ZERO."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ...analysis.model.context import PathLatency, QueueWindows
from ...analysis.model.envelope import Envelope, Interval
from ...senders import burst_services_text, known_senders, sender_name
from .packing import Pack
from .words import dated, exact_clock


def spans_of(pack: Pack, spans: Sequence[Interval], zero: int) -> dict[str, Any]:
    return {
        "start": pack.add_ascending([a - zero for a, _ in spans]),
        "end": pack.add_ascending([b - zero for _, b in spans]),
    }


def envelope_of(pack: Pack, envelope: Envelope, zero: int) -> dict[str, Any]:
    """Returns an envelope for the scripts. `first` is the cell that `cells` count from, and `start` is its begin."""
    first = int(envelope.cells[0]) if len(envelope) else 0
    same = bool(np.array_equal(envelope.largest, envelope.total))
    return {
        "width": envelope.width_ns,
        "bin": envelope.bin_ns,
        "first": first,
        "start": first * envelope.width_ns - zero,
        "cells": pack.add_ascending(envelope.cells - first),
        "largest": pack.add(envelope.largest),
        "total": None if same else pack.add(envelope.total),
    }


def latency_of(pack: Pack, latency: PathLatency, zero: int) -> dict[str, Any]:
    return {
        "name": latency.name,
        "at": pack.add_ascending(latency.at_ns - zero),
        "largest": pack.add(np.maximum(latency.largest, 0)),
        "median": pack.add(np.maximum(latency.median, 0)),
        "n": pack.add(latency.n),
        "lost": pack.add(latency.lost),
    }


def queue_of(pack: Pack, queue: QueueWindows, zero: int) -> dict[str, Any]:
    known = queue.largest >= 0
    return {
        "name": queue.name,
        "start": pack.add_ascending(queue.start_ns[known] - zero),
        "end": pack.add(queue.end_ns[known] - queue.start_ns[known]),
        "largest": pack.add(queue.largest[known]),
    }


def burst_of(number: int, burst: Mapping[str, Any], zero: int, over_ns: int) -> dict[str, Any]:
    """Returns a burst for the scripts; over_ns: the length of the page's period."""
    return {
        "number": number,
        "start": burst["start_ns"] - zero,
        "end": burst["end_ns"] - zero,
        "clock": dated(burst["start_ns"], exact_clock(burst["start_ns"], burst["bin_ns"]), over_ns),
        "bytes": burst["bytes"],
        "sources": burst["sources"],
        "fanIn": burst["fan_in"],
        "pattern": burst["pattern"],
        "spread": burst["onset_spread_ns"],
        "effective": burst["effective_sources"],
        "services": burst_services_text(burst),
        "top": [
            [sender_name(sender), sender["bytes"], sender["share"], sender["source"]] for sender in known_senders(burst)
        ],
    }
