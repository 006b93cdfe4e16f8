"""The messages of the live view: a JSON head and the arrays that it names, in one message."""

from __future__ import annotations

import json
import struct
from typing import Any

from ...analysis.live.lane import LiveLane
from ...analysis.live.snapshot import HeatCells, LaneSnapshot
from ..common.packing import Pack
from ..common.payload import burst_of, envelope_of, latency_of, queue_of, spans_of

_ALIGNED = 8


def joined(head: dict[str, Any], pack: Pack) -> bytes:
    """Returns the length of the head (u32, little-endian), the head in JSON padded with spaces to a multiple of 8, and
    the arrays."""
    text = json.dumps(head, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
    text += b" " * (-(len(text) + 4) % _ALIGNED)
    return struct.pack("<I", len(text)) + text + pack.joined()


def moment_head(lane: LiveLane, moment: LaneSnapshot, origin_ns: int, pack: Pack) -> dict[str, Any]:
    """Returns a moment in the format of a lane of a report, for the page's script; times count from ORIGIN_NS."""
    return {
        "lane": lane.id,
        "start": moment.start_ns - origin_ns,
        "end": moment.end_ns - origin_ns,
        "bin": lane.bin_ns,
        "coverage": spans_of(pack, moment.coverage, origin_ns),
        "losing": spans_of(pack, moment.losing, origin_ns),
        "marks": spans_of(pack, [], origin_ns),
        "detail": None,
        "detailCells": pack.add_ascending([]),
        "base": envelope_of(pack, moment.cells, origin_ns),
        "seconds": envelope_of(pack, moment.seconds, origin_ns),
        "latency": [
            {**latency_of(pack, path, origin_ns), "measure": path.measure, "stamps": path.stamps}
            for path in moment.latency
        ],
        "queues": [
            {**queue_of(pack, queue, origin_ns), "semantics": queue.semantics, "dropped": queue.dropped_packets}
            for queue in moment.queues
        ],
        "bursts": [
            {
                **burst_of(0, burst, origin_ns, moment.end_ns - moment.start_ns),
                "peak": burst["peak_utilization"],
                "mean": burst["mean_utilization"],
                "quality": burst["quality"],
                "recording_id": burst["recording_id"],
            }
            for burst in moment.bursts
        ],
    }


def heat_entry(heat: HeatCells, origin_ns: int, pack: Pack) -> dict[str, Any]:
    """Returns the heatmap from a time on: cells that are not covered are unknown."""
    return {
        **envelope_of(pack, heat.cells, origin_ns),
        "from": heat.start_ns - origin_ns,
        "coverage": spans_of(pack, heat.coverage, origin_ns),
    }
