"""Canary bursts in a recording: which of them the definition of a burst detects, and with which error.

The sent bursts come from the notes of their sender; bursts are those of sql/queries/bursts.sql. A canary burst counts
as detected if there is a burst in its time with at least half of the bytes from its sender."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from ...ethernet import on_wire
from ...quality import STAMP_NAMES, Quality
from ...sent_burst import SentBurst
from ...units import NS_PER_S
from ..bursts.find import BurstDefinition, detect_bursts
from ..model import coverage
from ..model.stats import Whole
from ..read import canary as read_canary
from .clock import Clock, compare

if TYPE_CHECKING:
    import duckdb

PPB = 10**9
OWN_SHARE = 0.5  # of a burst's bytes: with less, it is the burst of another sender
ARRIVED = 0.95  # of a burst's bytes: with less, the arrived burst differs from the sent one
OF_RECORDING = ("recording_id", "host", "rack", "interface", "direction")
OF_PLACE = ("clock_epoch", "start_ns", "end_ns", "offset_ns", "offset_error_ns", "drift_ppb")


@dataclass(frozen=True)
class LaneDetections:
    """The canary bursts of a run in a recording. rows: those of the table `canary`, without batch, source and read_ns.
    clocks: by clock epoch; empty if no bursts could be matched."""

    recording: Mapping[str, Any]
    clocks: dict[int, Clock]
    rows: list[dict[str, Any]]


def stamps_of(quality: int) -> str:
    """Returns the kinds of stamps among the bits of a quality: "sw", "sw, ring", or ''."""
    return ", ".join(name for bit, name in STAMP_NAMES.items() if quality & bit)


def settings_of(definition: BurstDefinition, stored_ns: int, link_bps: int) -> dict[str, int]:
    """Returns a definition as columns of `canary`, for a recording's bins."""
    width = definition.width_ns(stored_ns)
    release = definition.threshold if definition.release is None else definition.release
    least = definition.shortest_ns(stored_ns)
    return {
        "bin_ns": width,
        "link_bps": link_bps,
        "threshold_ppb": round(definition.threshold * PPB),
        "release_ppb": round(release * PPB),
        "join_ns": definition.joined_ns(stored_ns),
        "min_duration_ns": least,
    }


def spacing_ns(sent: Sequence[SentBurst]) -> int:
    """Returns the shortest time between two bursts; a second without any."""
    return min((after.start_ns - before.end_ns for before, after in pairwise(sent)), default=NS_PER_S)


def read_lane(
    con: duckdb.DuckDBPyConnection,
    recording: Mapping[str, Any],
    source: str,
    sent: Sequence[SentBurst],
    definition: BurstDefinition,
) -> LaneDetections:
    """Returns the detections of the bursts that SOURCE sent in one recording (a row of read_canary.lanes_with). Raises
    the errors of find_bursts."""
    came = read_canary.came(con, source, recording["recording_id"])
    quiet = max(spacing_ns(sent) // 2, 1)
    starts = np.array([one.start_ns for one in sent], dtype=np.int64)
    clocks = _clocks(starts, came, quiet)
    if not clocks:
        return LaneDetections(recording, {}, [])
    line_bps = definition.line_bps(recording["link_bps"])
    assert line_bps is not None  # the caller refuses other recordings
    settings = settings_of(definition, recording["bin_ns"], line_bps)
    spans = {
        epoch: times for (name, epoch), times in coverage.by_epoch(con).items() if name == recording["recording_id"]
    }
    placed = placed_in(sent, starts, clocks, spans, settings["link_bps"])
    detect_bursts(
        con,
        definition,
        recording=recording["recording_id"],
        since_ns=min(row["start_ns"] for row in placed) - NS_PER_S,
        until_ns=max(row["end_ns"] for row in placed) + NS_PER_S,
    )
    found = read_canary.found(con, source)
    qualities = read_canary.qualities(
        con,
        recording["recording_id"],
        recording["bin_ns"],
        [
            (one.number, row["clock_epoch"], row["start_ns"], row["end_ns"])
            for one, row in zip(sent, placed, strict=True)
        ],
    )
    seen_of_each = _seen_of_each(con, recording, sent, placed, came, quiet)
    beside = {
        **{name: recording[name] for name in OF_RECORDING},
        **settings,
        "stamps": stamps_of(int(np.bitwise_or.reduce([0, *qualities.values()]))),
    }
    rows = []
    for i, (one, row) in enumerate(zip(sent, placed, strict=True)):
        quality = qualities.get(one.number, 0)
        seen = seen_of_each[i]
        met = met_by(row, found, settings["bin_ns"] + row["slack_ns"], quiet)
        near = _nearest(sent, i) <= settings["join_ns"] + 2 * settings["bin_ns"]
        rows.append(
            {
                **_sent(one),
                **{name: row[name] for name in OF_PLACE},
                **beside,
                "quality": quality,
                **_found(one, row, seen, quality, near, met),
            }
        )
    return LaneDetections(recording, clocks, rows)


def _clocks(starts: Whole, came: Sequence[Mapping[str, Any]], quiet: int) -> dict[int, Clock]:
    """Returns the recorder's clock against the sender's, by clock epoch in which that can be said."""
    clocks = {}
    for epoch in sorted({row["clock_epoch"] for row in came}):
        clock = compare(starts, beginnings([row for row in came if row["clock_epoch"] == epoch], quiet))
        if clock is not None:
            clocks[epoch] = clock
    return clocks


def _seen_of_each(
    con: duckdb.DuckDBPyConnection,
    recording: Mapping[str, Any],
    sent: Sequence[SentBurst],
    placed: Sequence[Mapping[str, Any]],
    came: Sequence[Mapping[str, Any]],
    quiet_ns: int,
) -> list[tuple[int, int] | None]:
    """Returns the packets and bytes of the sender in the time of each burst; None if there are fewer than were sent and
    the others may be among senders that were summed up."""
    found = [seen_of(row, came, quiet_ns) for row in placed]
    short = [
        (one.number, row["clock_epoch"], *seen_in(row, quiet_ns))
        for one, row, seen in zip(sent, placed, found, strict=True)
        if seen is not None and seen[0] < one.packets
    ]
    summed = read_canary.summed(con, recording["recording_id"], recording["source_bin_ns"], short)
    return [None if one.number in summed else seen for one, seen in zip(sent, found, strict=True)]


def _found(
    one: SentBurst,
    row: Mapping[str, Any],
    seen: tuple[int, int] | None,
    quality: int,
    near: bool,
    met: Mapping[str, Any] | None,
) -> dict[str, Any]:
    """Returns the detection of a burst, as columns of `canary`."""
    excluded = why_excluded(one, row, seen, quality, near, met)
    known = met if met and met["share"] >= OWN_SHARE else {"start_ns": None, "end_ns": None, "bytes": None}
    return {
        "seen_packets": seen and seen[0],
        "seen_bytes": seen and seen[1],
        "excluded": excluded,
        "detected": met is not None and not excluded,
        "found_start_ns": known["start_ns"],
        "found_end_ns": known["end_ns"],
        "found_bytes": known["bytes"],
    }


def _sent(one: SentBurst) -> dict[str, Any]:
    """Returns the burst as sent, as columns of `canary`."""
    return {
        "number": one.number,
        "size_bytes": one.size_bytes,
        "length_ns": one.length_ns,
        "sent_ns": one.start_ns,
        "sent_for_ns": one.end_ns - one.start_ns,
        "sent_error_ns": one.error_ns,
        "sent_stamps": one.stamps,
        "packets": one.packets,
        "bytes": one.bytes,
    }


def beginnings(came: Sequence[Mapping[str, Any]], quiet_ns: int) -> Whole:
    """Returns the times at which a sender began to send after QUIET_NS of silence."""
    begun, last = [], None
    for row in came:
        if last is None or row["first_ns"] - last >= quiet_ns:
            begun.append(row["first_ns"])
        last = row["last_ns"] if last is None else max(last, row["last_ns"])
    return np.array(begun, dtype=np.int64)


def placed_in(
    sent: Sequence[SentBurst],
    starts: Whole,
    clocks: Mapping[int, Clock],
    spans: Mapping[int, Sequence[tuple[int, int]]],
    link_bps: int,
) -> list[dict[str, Any]]:
    """Returns the expected time and clock epoch of each burst in the recording; `recorded` says whether that time was
    recorded. A burst ends no sooner than the link can have carried it."""
    arrivals = {
        epoch: (clock.arrival(starts), clock.error_ns(starts), clock.late_ns(starts)) for epoch, clock in clocks.items()
    }
    placed = []
    for i, one in enumerate(sent):
        epoch = _epoch_of(i, arrivals, clocks, spans)
        clock, start = clocks[epoch], int(arrivals[epoch][0][i])
        wire_ns = on_wire(one.bytes, one.packets) * 8 * NS_PER_S // link_bps
        end = start + max(one.end_ns - one.start_ns, wire_ns)
        beyond = 2 * int(clock.scatter_ns)
        placed.append(
            {
                "clock_epoch": epoch,
                "start_ns": start,
                "end_ns": end,
                "recorded": any(since <= start and end <= until + beyond for since, until in spans.get(epoch, ())),
                "slack_ns": int(4 * clock.scatter_ns + arrivals[epoch][1][i]),
                "late_ns": int(arrivals[epoch][2][i]),
                "offset_ns": clock.offset_ns,
                "offset_error_ns": int(arrivals[epoch][1][i]),
                "drift_ppb": round(clock.drift * PPB),
            }
        )
    return placed


def _epoch_of(
    i: int,
    arrivals: Mapping[int, tuple[Any, Any, Any]],
    clocks: Mapping[int, Clock],
    spans: Mapping[int, Sequence[tuple[int, int]]],
) -> int:
    """Returns the clock epoch in which burst I was seen, or else recorded, or else that of the nearest burst that was
    seen."""
    if seen := [epoch for epoch, clock in clocks.items() if clock.matched[i] >= 0]:
        return seen[0]
    held = [
        epoch
        for epoch in clocks
        if any(since <= arrivals[epoch][0][i] < until for since, until in spans.get(epoch, ()))
    ]
    return (held or sorted(clocks, key=lambda epoch: np.abs(np.flatnonzero(clocks[epoch].matched >= 0) - i).min()))[0]


def seen_in(row: Mapping[str, Any], quiet_ns: int) -> tuple[int, int]:
    """Returns the start and end of the time in which packets of a burst may have come."""
    return row["start_ns"] - quiet_ns, row["end_ns"] + row["late_ns"] + quiet_ns


def seen_of(row: Mapping[str, Any], came: Sequence[Mapping[str, Any]], quiet_ns: int) -> tuple[int, int] | None:
    """Returns the packets and bytes of the sender in the time of a burst; None if its source bins contain more than
    that."""
    since, until = seen_in(row, quiet_ns)
    near = [
        one
        for one in came
        if one["clock_epoch"] == row["clock_epoch"] and one["first_ns"] < until and one["last_ns"] >= since
    ]
    if any(one["first_ns"] < since or one["last_ns"] >= until for one in near):
        return None
    return sum(one["packets"] for one in near), sum(one["bytes"] for one in near)


def met_by(
    row: Mapping[str, Any], found: Sequence[Mapping[str, Any]], slack_ns: int, quiet_ns: int
) -> Mapping[str, Any] | None:
    """Returns the burst in the time of a canary burst with most bytes of its sender; the longest one if the sender has
    no bytes in any."""
    slack, end = min(slack_ns, quiet_ns), row["end_ns"] + row["late_ns"]
    near = [
        one
        for one in found
        if one["clock_epoch"] == row["clock_epoch"]
        and one["start_ns"] < end + slack
        and one["end_ns"] > row["start_ns"] - slack
    ]
    return max(near, key=lambda one: (one["bytes"], one["end_ns"] - one["start_ns"]), default=None)


def why_excluded(
    one: SentBurst,
    row: Mapping[str, Any],
    seen: tuple[int, int] | None,
    quality: int,
    near: bool,
    met: Mapping[str, Any] | None,
) -> str:
    """Returns, in a word, why a burst does not count for the detection limit; '' if it counts."""
    if one.held_up:
        return "held up"
    if not row["recorded"]:
        return "not recorded"
    if seen is not None and seen[1] < ARRIVED * one.bytes and not quality & Quality.DROPS:
        return "lost"
    if near:
        return "joined"
    return "hidden" if met is not None and met["share"] < OWN_SHARE else ""


def _nearest(sent: Sequence[SentBurst], i: int) -> int:
    """Returns the distance of a burst from the nearest one before or behind it."""
    before = sent[i].start_ns - sent[i - 1].end_ns if i else NS_PER_S
    behind = sent[i + 1].start_ns - sent[i].end_ns if i + 1 < len(sent) else NS_PER_S
    return min(before, behind)
