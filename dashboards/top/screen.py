"""The display of `mburst top`, as lines of text."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from rich.text import Text

from ...analysis.live.rows import STALE_NS, LaneRow
from ...analysis.model.losses import CaptureLoss
from ...names import short, shown
from ...senders import senders_text
from ...units import format_bytes, format_count, format_duration, format_rate, format_share
from ..common.words import DIRECTIONS, clock, date, rate

if TYPE_CHECKING:
    from ...analysis.live.lane import LiveLane

LEAST_WIDTH, LEAST_HEIGHT = 80, 24
FIGURES = 20  # characters beside the blocks: the second, and the fullest bin
BLOCKS = "▁▂▃▄▅▆▇█"
SILENT, LOSING, UNRECORDED = "·", "×", " "
HOT, LOST, DIM = "bold red", "bold yellow", "dim"
KEYS = "space pause   ← → back, forward   + - zoom   ↑ ↓ link   f follow   q quit"


@dataclass(frozen=True)
class TopView:
    """The content to show: the rows of all lanes that fit, the chosen lane, and details of that one."""

    title: str
    rows: Sequence[LaneRow]
    chosen: int
    lanes: int  # total number
    first: int  # of the rows, among all
    following: bool
    threshold: float
    bursts: Sequence[dict[str, Any]] = ()  # of the chosen lane, the latest last
    loss: CaptureLoss = field(default_factory=CaptureLoss)  # of the chosen lane's captures
    losing_ns: int = 0  # time of bins in memory with lost packets or missing samples
    is_port: bool = False  # of a switch
    recording: bool = False
    age_ns: int = 0  # of the newest data, by the clock here
    suffixes: Mapping[str, str] = field(default_factory=dict)  # what lanes of one name differ in, by their id
    troubles: Sequence[str] = field(default_factory=list)


def name_width(width: int) -> int:
    """Returns the number of characters for the name of a lane."""
    return min(30, width // 3)


def columns(width: int) -> int:
    """Returns the number of blocks in a row."""
    return width - name_width(width) - FIGURES - 4


def rows_shown(lanes: int, height: int) -> int:
    """Returns the number of lanes that are shown at once: bursts get half of the screen, or the rest."""
    return max(1, min(lanes, (height - 8) // 2))


def screen(view: TopView, width: int, height: int) -> list[Text]:
    """Returns the lines of a screen, at most HEIGHT of at most WIDTH characters."""
    if width < LEAST_WIDTH or height < LEAST_HEIGHT:
        needed = f"mburst top needs {LEAST_WIDTH} × {LEAST_HEIGHT} characters"
        return [Text(f"{needed}; here are {width} × {height}"), Text("q quit")]
    if not view.rows:
        lines = [Text(short(view.title, width), HOT), Text("nothing is recorded yet")]
    else:
        lines = [*_head(view, width), *_lanes(view, width), Text()]
        room = height - len(lines) - 3 - len(view.troubles)
        lines += [*_bursts(view, width, room), _losses(view, width)]
    lines += [Text(short(trouble, width), LOST) for trouble in view.troubles]
    lines = lines[: height - 1]
    return [*lines, *(Text() for _ in range(height - 1 - len(lines))), Text(KEYS[:width], DIM)]


def _head(view: TopView, width: int) -> Iterator[Text]:
    row = view.rows[view.chosen - view.first]
    state = "following" if view.following else "paused"
    state += f", {format_duration(view.age_ns)} old" if view.following and view.age_ns > STALE_NS else ""
    when = f"{date(row.end_ns)} {clock(row.end_ns, 3)} UTC, {state}"
    yield Text(f"{short(view.title, width - len(when) - 2)}  {when}", "bold")
    cell, bin_width = format_duration(row.width_ns), format_duration(row.lane.bin_ns)
    each = f"a block: {cell}, its fullest bin of {bin_width}" if row.width_ns > row.lane.bin_ns else f"a block: {cell}"
    yield Text(f"{each}; {SILENT} silent, {LOSING} packets lost, blank not recorded"[:width], DIM)
    name = "link" if view.lanes == len(view.rows) else f"link ({len(view.rows)} of {view.lanes})"
    blocks = len(row.fullest)
    yield Text(f"  {name:<{name_width(width)}} {'':<{blocks}} {'last 1 s':>9} {'fullest':>9}", DIM)


def lane_words(lane: LiveLane) -> str:
    """ "cache-1 eth0 inbound"."""
    direction = lane.named("direction")
    return " ".join(filter(None, (lane.named("host"), lane.named("interface"), DIRECTIONS.get(direction, direction))))


def suffixes(lanes: Sequence[LiveLane]) -> dict[str, str]:
    """Returns the bin width, and if need be the line rate, of each lane whose name is that of another lane, by id."""
    found: dict[str, str] = {}
    racks = Counter((lane.named("rack"), lane_words(lane)) for lane in lanes)
    widths = Counter((lane.named("rack"), lane_words(lane), lane.bin_ns) for lane in lanes)
    for lane in lanes:
        name = lane.named("rack"), lane_words(lane)
        if racks[name] > 1:
            found[lane.id] = f" {format_duration(lane.bin_ns)}"
            if widths[(*name, lane.bin_ns)] > 1:
                found[lane.id] += f" {format_rate(lane.link_bps) if lane.link_bps else '?'}"
    return found


def _name(view: TopView, lane: LiveLane, width: int) -> str:
    """Returns the name of a lane in WIDTH characters. Its direction and what distinguishes it from others are not cut:
    if need be, the direction is one short word, and host and interface are cut."""
    suffix, direction = view.suffixes.get(lane.id, ""), lane.named("direction")
    if len(whole := shown(lane_words(lane)) + suffix) <= width:
        return whole
    end = (f" {shown(direction)}" if direction else "") + suffix
    place = " ".join(filter(None, (lane.named("host"), lane.named("interface"))))
    return short(short(place, max(width - len(end), 1)) + end, width)


def _lanes(view: TopView, width: int) -> Iterator[Text]:
    for place, row in enumerate(view.rows, view.first):
        link = row.lane.link_bps
        name = _name(view, row.lane, name_width(width))
        line = Text(f"{'▶' if place == view.chosen else ' '} {name:<{name_width(width)}} ")
        for bps, losing in zip(row.fullest, row.losing, strict=True):
            line.append(*_block(bps, losing, link or _most(row), view.threshold if link else 2.0))
        fullest = max((bps for bps in row.fullest if bps is not None), default=None)
        line.append(f" {_rate(row.second, link):>9} {_rate(fullest, link):>9}")
        yield line


def _most(row: LaneRow) -> float:
    """Returns the rate of a full block if the line rate is unknown."""
    return max((bps for bps in row.fullest if bps is not None), default=0.0) or 1.0


def _block(bps: float | None, losing: bool, full_bps: float, threshold: float) -> tuple[str, str]:
    """Returns a character and its style."""
    if losing:
        return LOSING, LOST
    if bps is None:
        return UNRECORDED, ""
    if bps == 0:
        return SILENT, DIM
    share = bps / full_bps
    return BLOCKS[min(math.ceil(share * len(BLOCKS)), len(BLOCKS)) - 1], HOT if share >= threshold else ""


def _rate(bps: float | None, link: int | None) -> str:
    return "-" if bps is None else rate(bps, link)


def _bursts(view: TopView, width: int, room: int) -> Iterator[Text]:
    """Yields the latest bursts of the chosen lane."""
    lane = view.rows[view.chosen - view.first].lane
    if not lane.link_bps:
        yield Text("bursts: the line rate of this link is not known"[:width], LOST)
        return
    found = list(view.bursts)[: -max(room, 1) - 1 : -1]
    of = _name(view, lane, width - 40)
    when = "of the newest minutes" if view.following else "of the time shown"
    some = f"{len(found)} of {len(view.bursts)}" if len(found) < len(view.bursts) else str(len(found))
    yield Text(f"bursts {when}, {of}: {some}"[:width], "bold")
    for burst in found:
        yield Text(short(burst_line(burst), width))


def burst_line(burst: dict[str, Any]) -> str:
    """Returns time, duration, peak, bytes and senders of a burst."""
    names = senders_text(burst, 10)
    return (
        f"{clock(burst['start_ns'], 6)} {format_duration(burst['duration_ns']):>8} "
        f"{format_share(round(burst['peak_utilization'], 3)):>6} {format_bytes(burst['bytes']):>8}  "
        f"{format_count(burst['sources'], 'sender')} ({burst['pattern']})" + (f": {names}" if names else "")
    )


def _losses(view: TopView, width: int) -> Text:
    so_far = " so far" if view.recording else ""
    if view.is_port:
        return _samples(view, width)
    if view.loss.dropped:
        least = "at least " if view.loss.is_least and not view.recording else ""
        packets, scope = format_count(view.loss.dropped, "packet"), f", {view.loss.scope}" if view.loss.scope else ""
        dropped = f"{least}{packets} dropped by the recorder{so_far}{scope}: counts are lower bounds"
        return Text(dropped[:width], LOST)
    if view.losing_ns:
        lost = f"packets were dropped in {format_duration(view.losing_ns)}: how many is stored when the recording ends"
        return Text(lost[:width], LOST)
    if view.loss.is_least and not view.recording:
        return Text("the recorder did not end: whether it dropped packets is not known"[:width])
    return Text(f"no packet dropped by the recorder{so_far}"[:width])


def _samples(view: TopView, width: int) -> Text:
    """Returns the missing samples of a switch's port."""
    if not view.losing_ns:
        return Text("no sample of the switch is missing"[:width])
    missing = f"samples of the switch are missing in {format_duration(view.losing_ns)}: counts are lower bounds"
    return Text(missing[:width], LOST)
