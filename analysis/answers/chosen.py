"""Which recordings an investigation uses: of each lane, those of one bin width and one link speed, each time once."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from ...units import format_duration, format_rate
from ..cause.link_ends import Lane
from ..model.envelope import merge_intervals


def choose_recordings(
    recordings: list[dict[str, Any]], notes: list[str], without_speed: list[str]
) -> dict[Lane, list[dict[str, Any]]]:
    """Returns the recordings to use of each lane, all of one bin width and link speed (the one with most time), and
    each time once. If a recording overlaps an earlier one, only its part after that is used. Of two consecutive
    recordings that share a bin, each has a part of it: both are used."""
    chosen: dict[Lane, list[dict[str, Any]]] = {}
    usual = usual_speeds(recordings)
    for recording in recordings:
        lane = _lane_of(recording)
        if recording["link_bps"] is None:
            without_speed.append(" ".join(lane))
            continue
        if recording["link_bps"] != usual[lane]:
            rates = format_rate(recording["link_bps"]), format_rate(usual[lane])
            notes.append(
                f"{' '.join(lane)}: recording {recording['recording_id']} is of a link of {rates[0]}, and others of "
                f"{rates[1]}; it is left out"
            )
            continue
        kept = chosen.setdefault(lane, [])
        if kept and recording["rack"] != kept[0]["rack"]:
            notes.append(f"{' '.join(lane)}: recording {recording['recording_id']} is of another rack; it is left out")
            continue
        until = max((before["end_ns"] for before in kept), default=recording["first_ns"])
        overlap = until - recording["first_ns"]
        if kept and (recording["bin_ns"] != kept[0]["bin_ns"] or (overlap > 0 and recording["end_ns"] <= until)):
            notes.append(
                f"{' '.join(lane)}: recording {recording['recording_id']} overlaps another or has other bins; "
                "it is left out"
            )
            continue
        if overlap > recording["bin_ns"]:
            notes.append(
                f"{' '.join(lane)}: recording {recording['recording_id']} overlaps another for "
                f"{format_duration(overlap)}; "
                "what it has of that time is left out"
            )
            recording = {**recording, "first_ns": until, "from_ns": until}
        kept.append(recording)
    return chosen


def left_out(
    recordings: list[dict[str, Any]], chosen: dict[Lane, list[dict[str, Any]]]
) -> dict[Lane, list[tuple[int, int]]]:
    """Returns the times of the recordings of each lane that choose_recordings() did not choose."""
    used = {recording["recording_id"] for kept in chosen.values() for recording in kept}
    times: dict[Lane, list[tuple[int, int]]] = defaultdict(list)
    for recording in recordings:
        if recording["recording_id"] not in used:
            times[_lane_of(recording)].append((recording["first_ns"], recording["end_ns"]))
    return times


def usual_speeds(recordings: list[dict[str, Any]]) -> dict[Lane, int]:
    """Returns the link speed of each lane at which it was recorded for most of the time, which counts once."""
    times: dict[Lane, dict[int, list[tuple[int, int]]]] = defaultdict(lambda: defaultdict(list))
    for recording in recordings:
        if recording["link_bps"] is not None:
            times[_lane_of(recording)][recording["link_bps"]].append((recording["first_ns"], recording["end_ns"]))
    return {lane: max(speeds, key=lambda speed: _length_ns(speeds[speed])) for lane, speeds in times.items()}


def _lane_of(recording: dict[str, Any]) -> Lane:
    return recording["host"], recording["interface"], recording["direction"]


def _length_ns(spans: list[tuple[int, int]]) -> int:
    return sum(end - begin for begin, end in merge_intervals(spans))
