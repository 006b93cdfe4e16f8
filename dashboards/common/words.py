"""Words that several pages use: times, counts, names, statements, and the definition of a burst."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from ...analysis.answers.lanes import ReportLane
from ...units import NS_PER_DAY, format_count, format_duration, format_number, format_rate, format_share

if TYPE_CHECKING:
    from ...analysis.bursts.find import BurstDefinition
    from ...sql.damage import DamagedFile

GOOD, NOTE, WARNING = "good", "note", "warning"
DIRECTIONS = {"in": "inbound", "out": "outbound", "mirror": "mirror port, one direction"}
PATTERN_NAMES = {
    "single-source": "single source",
    "incast": "incast",
    "many-sources": "many sources",
    "canary": "canary",
    "unknown": "sender not known",
}


@dataclass(frozen=True)
class Statement:
    """A fact to know. `level` is GOOD, NOTE or WARNING: whether it changes the meaning of the figures."""

    level: str
    head: str
    text: str


def clock(ts_ns: int, digits: int = 9) -> str:
    """ "02:34:23.903467979" in UTC, with 0 to 9 digits after the second."""
    second, rest = divmod(ts_ns, 1_000_000_000)
    text = datetime.fromtimestamp(second, UTC).strftime("%H:%M:%S")
    return f"{text}.{rest:09d}"[: 8 + (digits + 1 if digits else 0)]


def exact_clock(ts_ns: int, *others: int) -> str:
    """Returns the clock with as many digits (3, 6 or 9) as this time, and the others, need to be exact."""
    digits = next(digits for digits in (3, 6, 9) if all(t % 10 ** (9 - digits) == 0 for t in (ts_ns, *others)))
    return clock(ts_ns, digits)


def dated(ts_ns: int, time: str, over_ns: int) -> str:
    """Returns TIME, the time of day of a moment, with its date if a period of OVER_NS has that time more than once."""
    return f"{date(ts_ns)} {time}" if over_ns > NS_PER_DAY else time


def date(ts_ns: int) -> str:
    """ "2026-11-21" in UTC."""
    return datetime.fromtimestamp(ts_ns // 1_000_000_000, UTC).strftime("%Y-%m-%d")


def count_hosts(hosts: int, others: int, other: str) -> str:
    """ "2 hosts and 1 switch": OTHERS are counted separately, each an OTHER; "2 hosts" without any."""
    kinds = [(hosts, "host"), (others, other)]
    return " and ".join(format_count(number, noun) for number, noun in kinds if number) or format_count(0, "host")


def senders_shown(shown: Sequence[str], senders: int, others: int) -> str:
    """ "20 of 35 senders, and up to 1,000 others at once": SHOWN are those of a table, SENDERS all without those that
    are recorded together (`other`), OTHERS the most that these are at once."""
    number = sum(sender != "other" for sender in shown)
    if others and not senders:
        return f"up to {format_count(others, 'sender')} at once"
    of = format_count(senders, "sender")
    if number < senders:
        of = f"{number:,} of {of}"
    return f"{of}, and up to {format_count(others, 'other')} at once" if others else of


def rate(bps: float, link_bps: int | None) -> str:
    """Returns a rate for readers: a share of line rate if the speed of the link is known."""
    return format_share(bps / link_bps) if link_bps else format_rate(bps)


def duration(ns: float | None) -> str:
    """Returns a duration, "–" for none."""
    return "–" if ns is None else format_duration(ns)


def lacking(is_port: bool) -> str:
    """Returns what a lane's bins lack if they do not have all of the traffic: a switch's port is sampled."""
    return "samples missing" if is_port else "packets lost while recording"


def above_line_rate(is_port: bool) -> str:
    """Returns why a bin can read more than the link carries."""
    if is_port:
        return "a bin of a switch's port is what passed between two samples, which can be further apart"
    return "a frame counts whole in the bin of its stamp, which can be late"


def lane_name(lane: ReportLane) -> str:
    """ "cache-server eth0 inbound"."""
    direction = DIRECTIONS.get(lane.direction, lane.direction)
    return " ".join(part for part in (lane.host or "unnamed host", lane.interface, direction) if part)


def period(start_ns: int, end_ns: int) -> str:
    """Returns the start and end in UTC; with one date if it is a single day."""
    later = "" if date(start_ns) == date(end_ns) else f"{date(end_ns)} "
    return f"{date(start_ns)} {clock(start_ns, 3)} – {later}{clock(end_ns, 3)} UTC"


def moment(ts_ns: int) -> str:
    """ "2026-11-21 02:34" in UTC, with seconds unless they are 0."""
    when = datetime.fromtimestamp(ts_ns // 10**9, UTC)
    return when.strftime("%Y-%m-%d %H:%M" + (":%S" if when.second else ""))


def long(ns: float) -> str:
    """Returns a duration of recording or of time in bursts, also in hours and days."""
    hours = ns / 3600e9
    if hours >= 48:
        return f"{format_number(hours / 24)} days"
    return f"{hours:.3g} h" if hours >= 1 else format_duration(ns)


def impossible_windows(left_out: int) -> Iterator[Statement]:
    """Yields a statement on the queue windows that devices reported with impossible values."""
    if left_out:
        yield Statement(
            NOTE,
            f"{format_count(left_out, 'window')} of switch queues left out as impossible",
            "The device reported more than its port can carry or its queue can hold.",
        )


def verdict(found: Sequence[Statement]) -> str:
    """Returns the one sentence above the statements."""
    return doubt(found) or "There are no warnings for these figures."


def doubt(found: Sequence[Statement]) -> str:
    """Returns what may change the answer, in a sentence; empty without a warning."""
    warnings = [statement.head for statement in found if statement.level == WARNING]
    if not warnings:
        return ""
    return "Read the figures with care: " + "; ".join(head[0].lower() + head[1:] for head in warnings) + "."


def missing_files(damaged: Sequence[DamagedFile], shown: int = 5) -> Iterator[Statement]:
    """Yields a statement on rows that the figures lack because files are or were damaged."""
    from ...sql.damage import counted

    if damaged:
        missing = "; ".join(file.missing() for file in damaged[:shown])
        more = f"; and of {format_count(len(damaged) - shown, 'further file')}" if len(damaged) > shown else ""
        yield Statement(
            WARNING,
            counted(damaged),
            f"Missing here: {missing}{more}. Counts are lower bounds, and bursts can be missing.",
        )


def definition_words(definition: BurstDefinition, bin_ns: int | None) -> str:
    """Returns the definition of a burst in one sentence."""
    width = definition.bin_ns or bin_ns
    join = definition.joined_ns(width) if width else definition.join_ns
    least = definition.min_duration_ns if definition.min_duration_ns is not None else width
    bins = f"bins of {format_duration(width)}" if width else "bins"
    text = f"Consecutive {bins} at or above {format_share(definition.threshold)} of line rate"
    if definition.release is not None and definition.release != definition.threshold:
        text += f", going on at {format_share(definition.release)} or more"
    text += (
        f", joined over gaps of up to {format_duration(join)}"
        if join
        else ", without joining over gaps"
        if join == 0
        else ", joined over gaps of up to five bins"
    )
    return text + (f", lasting at least {format_duration(least)}." if least else ", lasting at least one bin.")


def definitions(definition: BurstDefinition, bin_ns: int | None) -> list[tuple[str, str]]:
    """Returns the meaning of the words of a page: (word, meaning)."""
    return [
        (
            "Utilization",
            "wire bytes × 8 / (bin × line rate), one direction. Wire bytes of an Ethernet frame: "
            "max(length without FCS, 60) + 24.",
        ),
        ("Burst", definition_words(definition, bin_ns)),
        (
            "Fan-in",
            "the senders of at least half an equal share of the burst's bytes (bytes / senders / 2), so that "
            "background and probes do not count.",
        ),
        ("Effective senders", "1 / Σ share²: as many equal senders would be as concentrated."),
        ("Onset spread", "from the first frame in the burst of the first of those senders to that of the last."),
        (
            "1 s average",
            "wire bytes of each whole second of the clock: what a counter read once a second shows. A "
            "second that was recorded in part counts as a whole one.",
        ),
        (
            "Largest and mean",
            "of the bins in each step of the figure. The largest bin of a step is never averaged "
            "away, so no burst disappears at any zoom.",
        ),
        ("Quantiles", "nearest rank: values that occurred. p90 and p99 are left out where n cannot hold them."),
    ]
