"""The rows of `recordings`: one for each direction of each interface, rewritten as more becomes known."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from ... import __version__
from ...quality import STAMP_WORDS, STAMPERS, Quality
from ...sql.tables import COMPLETE
from ...units import NS_PER_S, format_count, format_duration, format_time
from .backends import COUNT_LESS
from .interface_counters import InterfaceCounters
from .recording import RecordSettings, Row

if TYPE_CHECKING:
    from ...capture import Capture, Facts, Lane
    from ...sql.repair.recovery import Totals

# Of an interface, the frames that are neither from nor to this host, from which on its address is in doubt.
DOUBTFUL_SHARE = 0.05
LEAST_FOREIGN = 10
ETHERNET = 1  # its number as a link type of capture files


class WrittenTimes:
    """Times of this clock, each later than the one before, also where the clock was set back: of the rows of a
    recording the newest counts."""

    def __init__(self) -> None:
        self._last_ns = 0

    def next_ns(self) -> int:
        """That of the next row."""
        self._last_ns = max(time.time_ns(), self._last_ns + 1)
        return self._last_ns


@dataclass(frozen=True)
class Attempt:
    """The values that all rows of one call of record() share."""

    recording: RecordSettings
    capture_id: str
    writer_id: str
    begun_ns: int
    live: bool
    begun: InterfaceCounters  # of its interface, at begun_ns
    times: WrittenTimes = field(default_factory=WrittenTimes)

    def recording_id(self, lane: int) -> str:
        """Returns the recording_id of the lane with this number."""
        return f"{self.capture_id}-{lane}"

    def interface(self, lane: Lane) -> str:
        """Returns the name of an interface: the one that was asked for, or else that of `named_interface`."""
        return _name(self.recording, lane)

    def row(self, index: int, lane: Lane, facts: Facts, state: RecordState) -> Row:
        """Returns the row of the lane with the number INDEX."""
        recording, totals = self.recording, state.totals.get(self.recording_id(index))
        begun_packets, begun_bytes = self.begun.of(lane["direction"])
        counter_packets, counter_bytes = state.counters.of(lane["direction"])
        is_final = bool(state.ended)
        return {
            "recording_id": self.recording_id(index),
            "capture_id": self.capture_id,
            "host": recording.host,
            "rack": recording.rack,
            "interface": self.interface(lane),
            "direction": lane["direction"],
            "link_bps": recording.link_bps or lane["link_bps"] or None,
            "bin_ns": recording.bin_ns,
            "source_bin_ns": recording.source_bin_ns,
            "backend": "file" if facts["backend"] == "merge" else facts["backend"],
            "input": " ".join(recording.targets),
            "filter": recording.filter,
            "snaplen": lane["snaplen"],
            "clock": stamped_by(lane["quality"], self.live) if lane["packets"] or not is_final else "no packets",
            "offloads": _merged(lane["merged"], facts["mtu"]),
            "notes": "\n".join(state.notes),
            "start_ns": lane["start_ns"] if totals and totals.packets else None,
            "end_ns": _end_ns(lane, totals, recording.bin_ns, state.ended in COMPLETE),
            "clock_epochs": lane["clock_epochs"],
            "packets": totals.packets if totals else 0,
            "bytes": totals.bytes if totals else 0,
            "wire_bytes": totals.wire_bytes if totals else 0,
            "unattributed_packets": lane["unattributed_packets"],
            "unattributed_bytes": lane["unattributed_bytes"],
            "dropped": facts["dropped"],
            "late": lane["late"],
            "late_bytes": lane["late_bytes"],
            "unparsed": lane["unparsed"],
            "quality": lane["quality"] if is_final else totals.quality if totals else 0,
            "version": __version__,
            "complete": state.ended in COMPLETE,
            "written_ns": self.times.next_ns(),
            "writer_id": self.writer_id,
            "counted_segments": None if is_final else state.counted_segments,
            "begun_ns": self.begun_ns,
            "ended": state.ended,
            "boot_id": self.begun.boot,
            "interface_id": self.begun.interface,
            "begun_packets": begun_packets,
            "begun_bytes": begun_bytes,
            "counter_packets": counter_packets,
            "counter_bytes": counter_bytes,
            "sources_above_ppb": recording.sources_above_ppb if lane["busy"] else None,
        }


def named_interface(name: str, target: str, index: int) -> str:
    """Returns the name of an interface in its capture, or else one after the capture's file TARGET."""
    return name or f"{Path(target).name.split('.')[0]}:{index}"


@dataclass(frozen=True)
class RecordState:
    """The values that change from one row of a recording to the next. TOTALS are those of its first COUNTED_SEGMENTS
    segments of bins, or of all segments once it has ENDED, by recording_id."""

    totals: dict[str, Totals]
    counted_segments: int
    counters: InterfaceCounters
    ended: str = ""
    notes: tuple[str, ...] = ()


def _end_ns(lane: Lane, totals: Totals | None, bin_ns: int, is_complete: bool) -> int | None:
    """Returns the time of the last packet, or the end of the last bin if the recording is not complete."""
    if totals is None or not totals.packets:
        return None
    return lane["end_ns"] if is_complete else totals.last_ns + bin_ns


def silent_lanes(recording: RecordSettings, facts: Facts) -> list[Lane]:
    """Returns the lanes of an interface before its first packet, as the engine would report them. Counters that the
    backend does not have are None."""
    from ...capture import device

    uncounted = None if facts["backend"] in COUNT_LESS else 0
    found = device(recording.targets[0])
    sides: tuple[Literal["in", "out"], ...] = ("in", "out")
    return [
        {
            "interface": recording.targets[0],
            "index": 0,
            "linktype": ETHERNET,
            "snaplen": facts["snaplen"],
            "link_bps": found["link_bps"] if found else 0,
            "busy": bool(recording.sources_above_ppb and (recording.link_bps or (found and found["link_bps"]))),
            "direction": side,
            "start_ns": 0,
            "end_ns": 0,
            "packets": 0,
            "bytes": 0,
            "wire_bytes": 0,
            "unattributed_packets": 0,
            "unattributed_bytes": 0,
            "late": 0,
            "late_bytes": 0,
            "unparsed": uncounted,
            "merged": 0,
            "foreign_packets": 0,
            "ce_packets": 0,
            "retransmits": 0,
            "cnp_packets": 0,
            "pause_frames": uncounted,
            "quality": 0,
            "clock_epochs": 1,
        }
        for side in sides
        if recording.direction in (side, "both")
    ]


def stamped_by(quality: int, live: bool) -> str:
    """Returns the source and the resolution of the packets' timestamps."""
    resolution = "1 µs or coarser" if quality & Quality.FILE_US else "ns"
    if not live:
        return f"file, {resolution}"
    kinds = [word for bit, word in STAMP_WORDS.items() if quality & bit & STAMPERS]
    return f"{' and '.join(kinds) or 'kind not known'}, {resolution}"


def _merged(count: int, mtu: int) -> str:
    if not count:
        return ""
    return (
        f"{format_count(count, 'frame')} larger than an MTU of {mtu:,}, merged by GRO or TSO: wire bytes are "
        "estimated from the segments, and their timing inside is not known"
    )


def _clock_steps(lanes: list[Lane]) -> int:
    """Returns the steps of the clocks of all interfaces. Both directions of an interface have one clock."""
    steps: dict[int, int] = {}
    for lane in lanes:
        steps[lane["index"]] = max(steps.get(lane["index"], 0), lane["clock_epochs"] - 1)
    return sum(steps.values())


def _name(recording: RecordSettings, lane: Lane) -> str:
    return recording.interface or named_interface(lane["interface"], recording.targets[0], lane["index"])


def _foreign(recording: RecordSettings, facts: Facts, lanes: list[Lane]) -> list[str]:
    """Returns that the addresses of this host may be wrong: of the interfaces where it seems so if others do not, or
    else of all together."""
    text = "% of the frames are neither from nor to the address assumed to be this host: override with --local"
    if recording.local:
        text = (
            "% of the frames are neither from nor to an address given by --local, and count as incoming: "
            "give all addresses of this host"
        )
    shares = {} if facts["excluded_packets"] else _foreign_shares(recording, lanes)
    doubtful = {name: share for name, share in shares.items() if share > DOUBTFUL_SHARE}
    if 0 < len(doubtful) < len(shares):
        return [f"{name}: {100 * share:.3g} {text}" for name, share in doubtful.items()]
    share = facts["foreign_packets"] / max(1, facts["ethernet_packets"])
    return [f"{100 * share:.3g} {text}"] if share > DOUBTFUL_SHARE else []


def _foreign_shares(recording: RecordSettings, lanes: list[Lane]) -> dict[str, float]:
    """Returns the share of each interface; 0 for a few frames. The lanes have both directions."""
    counts: dict[str, tuple[int, int]] = {}
    for lane in lanes:
        name = _name(recording, lane)
        foreign, packets = counts.get(name, (0, 0))
        counts[name] = foreign + lane["foreign_packets"], packets + lane["packets"] + lane["late"]
    return {name: foreign / packets if foreign >= LEAST_FOREIGN else 0.0 for name, (foreign, packets) in counts.items()}


def describe(recording: RecordSettings, capture: Capture, lanes: list[Lane]) -> list[str]:
    """Returns what was inferred and what users of the numbers should know, one sentence each."""
    facts = capture.facts
    notes = [facts["inferred"]] if facts["inferred"] else []
    notes += facts["notice"].splitlines() if facts["notice"] else []
    notes += _foreign(recording, facts, lanes)
    if facts["excluded_packets"]:
        packets = format_count(facts["excluded_packets"], "packet")
        notes.append(f"{packets} of the other direction left out (--direction)")
    if facts["dropped"]:
        packets = format_count(facts["dropped"], "packet")
        notes.append(f"{packets} dropped before the capture was written: all counts are lower bounds")
    if recording.sources_above_ppb and not all(lane["busy"] for lane in lanes):
        notes.append("all senders are kept, as the speed of the link is not known (--sources busy needs it: --link)")
    late = sum(lane["late"] for lane in lanes) - facts["misdated"]
    if late:
        notes.append(f"{format_count(late, 'packet')} outside the reorder window, in no bin; raise --reorder-window")
    notes += _not_understood(lanes)
    steps = _clock_steps(lanes)
    if steps:
        notes.append(f"{format_count(steps, 'step')} of the clock: a new clock epoch begins at each")
    are_several = len({lane["index"] for lane in lanes}) > 1
    for lane in lanes:
        where = f"{_name(recording, lane)} {lane['direction']}" if are_several else lane["direction"]
        if lane["pause_frames"]:
            frames = format_count(lane["pause_frames"], "pause frame")
            notes.append(f"{where}: {frames} to stop the other end of the link")
        if lane["cnp_packets"]:
            packets = format_count(lane["cnp_packets"], "congestion notification")
            notes.append(f"{where}: {packets} of RoCEv2")
    if facts["folded_bins"]:
        notes.append(
            f"in {facts['folded_bins']:,} source bins there were more senders than fit in memory, or bins were lost: "
            "`other` may count one of them more than once"
        )
    if facts["flows_unseen"]:
        notes.append("there were more flows than fit in memory: counts of flows are lower bounds")
    return notes


def _not_understood(lanes: list[Lane]) -> Iterator[str]:
    """Yields how many packets could not be parsed, by the link type if it is not Ethernet, and how many have no
    sender."""
    unparsed: dict[int, int] = {}
    for lane in lanes:
        unparsed[lane["linktype"]] = unparsed.get(lane["linktype"], 0) + (lane["unparsed"] or 0)
    for linktype, packets in unparsed.items():
        of = "" if linktype == ETHERNET else f" of link type {linktype}"
        if packets:
            yield f"{format_count(packets, 'packet')}{of} could not be parsed: counted by length alone"
    if packets := sum(lane["unattributed_packets"] for lane in lanes):
        yield f"{format_count(packets, 'packet')} without a sender"


def silence_text(begin_ns: int, end_ns: int) -> str:
    """Returns a note on nearly all of a file's time, in which it has no packet."""
    span = f"from {format_time(begin_ns)} to {format_time(end_ns)} UTC"
    return f"no packet for {format_duration(end_ns - begin_ns)}, {span}: that counts as idle, even if the clock jumped"


def seconds(row: Row) -> float:
    """Returns the time from the first to the last packet of a row of `recordings`. It is 0 if there is no packet, or if
    the clock stepped, because the timestamps then do not show it."""
    return (row["end_ns"] - row["start_ns"]) / NS_PER_S if row["packets"] and row["clock_epochs"] == 1 else 0.0
