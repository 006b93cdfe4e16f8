"""Which answers state which fact of the busiest second and the busiest bin of a lane."""

from __future__ import annotations

from typing import Any

from oneasked import Asked
from onecells import by_lane, cell, rack_lanes
from onestore import MS


@cell("busiest_second")
def report_busiest(asked: Asked) -> Any:
    return by_lane(asked.report["lanes"], lambda row: row["busiest_second"]["wire_bytes"])


@cell("busiest_second")
def rack_busiest(asked: Asked) -> Any:
    return rack_lanes(asked, lambda row: round(row["busiest_second"] / 8))


@cell("busiest_whole_second")  # a second that is over
def live_busiest(asked: Asked) -> Any:
    return {lane: int(moment.seconds.total.max(initial=0)) for lane, moment in asked.moments.items()}


@cell("busiest_bin")
def report_fullest(asked: Asked) -> Any:
    return by_lane(asked.report["lanes"], lambda row: row["busiest_bin"]["wire_bytes"])


@cell("busiest_bin")
def rack_fullest(asked: Asked) -> Any:
    return rack_lanes(asked, lambda row: round(row["busiest_bin"] * MS / 8e9))


@cell("busiest_bin")
def live_fullest(asked: Asked) -> Any:
    return {lane: int(moment.cells.largest.max(initial=0)) for lane, moment in asked.moments.items()}
