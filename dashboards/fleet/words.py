"""A fleet's report in words: what happened, and what to know before trusting the figures."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

from ...analysis.fleet.answers import BurstAnswers, Row
from ...analysis.fleet.report import FleetFigures, FleetPeriod, FleetRackFigures, RackSums
from ...analysis.partition.detect import AFTER_NS
from ...units import NS_PER_DAY, format_count, format_duration, format_rate, format_share
from ..common.summaries import FLEET
from ..common.words import DIRECTIONS, GOOD, NOTE, WARNING, Statement, date, definitions, duration, long

NAMED = 20  # partitions and dates named in a statement
FEW_LOSING = 0.001  # share of a rack's bins from which dropped packets are a warning
WHOLE = 0.995  # share of the time of expected hosts from which no statement says that they recorded less
AFTER = format_duration(AFTER_NS)
CAUSES = {  # of late probes, as `verdicts` has them
    "bursts": "bursts",
    "host": "hosts",
    "elsewhere": "the network elsewhere",
    "none": "no tail",
    "undetermined": "not determined",
}
Tile = tuple[str, str, str]


def days(period: FleetPeriod) -> str:
    """ "Friday 2026-11-20, UTC", or the first day and the last one."""
    if period.until_ns - period.since_ns == NS_PER_DAY:
        return f"{datetime.fromtimestamp(period.since_ns // 10**9, UTC):%A %Y-%m-%d}, UTC"
    number = (period.until_ns - period.since_ns) // NS_PER_DAY
    return f"{date(period.since_ns)} to {date(period.until_ns - 1)}, {number} days, UTC"


def counted(period: FleetPeriod) -> str:
    """Returns the unit in which recordings are counted: hosts, once for each day."""
    return "host" if period.until_ns - period.since_ns == NS_PER_DAY else "host-day"


def class_name(of_class: Row) -> str:
    """ "cache, inbound, 25 Gb/s, bins of 1 ms": the class by which durations and gaps are counted."""
    direction = DIRECTIONS.get(of_class["direction"], of_class["direction"])
    speeds = f"{format_rate(of_class['link_bps'])}, bins of {format_duration(of_class['bin_ns'])}"
    return ", ".join(part for part in (of_class["service"], direction, speeds) if part)


def range_name(least: int, following: int | None) -> str:
    """Returns the whole numbers from LEAST to before FOLLOWING (None: and more)."""
    if following is None:
        return f"{least} and more"
    return f"{least}" if following == least + 1 else f"{least} – {following - 1}"


def at_once_ns(answers: BurstAnswers, hosts: int) -> int:
    """Returns how long racks had HOSTS or more in a burst at once; for 0: how long that is known."""
    return sum(row["ns"] for row in answers.at_once if row["hosts_at_once"] >= hosts)


def lossy(answers: BurstAnswers) -> tuple[int, int]:
    """Returns the number of bursts with retransmissions in them or after them, and of all bursts with counted
    retransmissions."""
    return sum(row["lossy"] for row in answers.loss), sum(row["bursts"] for row in answers.loss)


def total(racks: Sequence[RackSums]) -> RackSums:
    """Returns the sums over all racks of the fields that add up."""
    names = ("hosts_expected", "hosts_recorded", "hosts", "bursting_hosts", "bursts", "burst_ns", "recorded_ns")
    return RackSums("", **{name: sum(getattr(rack, name) for rack in racks) for name in names})


def verdict(sums: RackSums, answers: BurstAnswers, where: str = "") -> str:
    """Describes a fleet or a rack in a few sentences."""
    if not sums.recorded_ns:
        return "No host recorded what it receives." if answers.ports.count else "Nothing was recorded in this time."
    if not sums.bursts:
        return f"No burst reached any of the {format_count(sums.hosts, 'host')} recorded{where}."
    parts = [
        f"{sums.bursting_hosts:,} of {format_count(sums.hosts, 'host')}{where} received "
        f"{format_count(sums.bursts, 'burst')}, "
        f"{format_share(sums.burst_share)} of the time that was recorded"
    ]
    if shared := at_once_ns(answers, 2):
        parts.append(f"Two or more hosts{' of a rack' if where else ''} were in a burst at once for {long(shared)}")
    parts.append(lossy_words(answers))
    return ". ".join(parts) + "."


def lossy_words(answers: BurstAnswers) -> str:
    """Returns how many of the received bursts are lossy, if that was counted."""
    losing, of = lossy(answers)
    if answers.bursts and not of:
        return "Retransmissions were not counted"
    counted_ones = " whose retransmissions were counted" if of < answers.bursts else ""
    if not losing:
        return f"No burst{counted_ones} has retransmissions in it or soon after"
    return f"{losing:,} of {of:,} bursts{counted_ones} have retransmissions in them or soon after"


def summary(figures: FleetFigures) -> dict[str, Any]:
    """Returns this report's entry for an index of reports, a mail or an alert."""
    sums, answers = total(figures.racks), figures.answers
    worst = next((row for row in answers.hosts.rows if row["bursts_per_h"]), None)
    drops = [row["in_bursts"] + row["elsewhere"] for row in answers.losses if row["measure"] == "drops"]
    return {
        "rack": FLEET,
        "since_ns": figures.period.since_ns,
        "until_ns": figures.period.until_ns,
        "recorded": sums.recorded_ns > 0,
        "verdict": verdict(sums, answers, f" in {format_count(len(figures.racks), 'rack')}"),
        "hosts": sums.hosts,
        "bursting_hosts": sums.bursting_hosts,
        "bursts": sums.bursts,
        "burst_ns": sums.burst_ns,
        "share": sums.burst_share,
        "longest_ns": answers.longest_ns or 0,
        "worst_host": f"{worst['host']} in rack {worst['rack']}" if worst else "",
        "queue_drops": drops[0] if drops else None,
        "dropped": None,
        "previous_per_hour": None,
        "per_hour": None,
        "new": None,
        "warnings": [statement.head for statement in statements(figures) if statement.level == WARNING],
        "recorded_part": recorded_part(figures) if sums.recorded_ns else "",
        "lacks": "" if sums.recorded_ns else "no host recorded",
        "missing": silent_words(
            sum(max(0, rack.hosts_expected - rack.hosts_recorded) for rack in figures.racks), figures.period
        ),
    }


def recorded_part(figures: FleetFigures) -> str:
    """ "results of 1 of 7 days; on days with results, 16 % of the time of expected hosts recorded"; '' if all of the
    time was recorded. The share is of the days with results: hosts are expected on these."""
    share, missing = recorded_share(figures.racks), len(figures.period.dates)
    number = (figures.period.until_ns - figures.period.since_ns) // NS_PER_DAY
    parts = [
        *([f"results of {number - missing} of {number} days"] if missing else []),
        *(
            [f"{_of_days(missing)}{format_share(share)} of the time of expected hosts recorded"]
            if share < WHOLE
            else []
        ),
    ]
    return "; ".join(parts)


def _of_days(missing: int) -> str:
    return "on days with results, " if missing else ""


def _of_counted(losing: int, of: int, bursts: int) -> str:
    """Returns LOSING bursts out of OF, the part of all BURSTS with counted retransmissions."""
    if bursts and not of:
        return "not counted"
    return f"{losing:,} of {of:,}" + (" that were counted" if of < bursts else "")


def tiles(sums: RackSums, answers: BurstAnswers) -> list[Tile]:
    """Returns the figures above the heatmap."""
    return [
        ("Bursts received", f"{sums.bursts:,}", f"by {format_count(sums.bursting_hosts, 'host')}"),
        ("Time in bursts", format_share(sums.burst_share), f"of {long(sums.recorded_ns)} recorded"),
        ("Longest burst", duration(answers.longest_ns), "received"),
    ]


def further(sums: RackSums, answers: BurstAnswers, recorded_share: float, period: FleetPeriod) -> list[tuple[str, str]]:
    """Returns the figures below the heatmap."""
    known, (losing, of) = at_once_ns(answers, 0), lossy(answers)
    most = max((row["hosts_at_once"] for row in answers.at_once), default=0)
    share = f"{format_share(losing / of)}, " if of else ""
    recorded = f"{sums.hosts_recorded:,} of {format_count(sums.hosts_expected, counted(period))}"
    return [
        (
            "Two or more at once",
            f"{long(at_once_ns(answers, 2))} of {long(known)}; at most {format_count(most, 'host')}"
            if known
            else "not known",
        ),
        ("Lossy bursts", f"{share}{_of_counted(losing, of, answers.bursts)}"),
        ("Recorded", f"{format_share(recorded_share)}, {recorded}"),
    ]


def recorded_share(racks: Sequence[RackSums]) -> float:
    """Returns the recorded share of the time of all expected hosts."""
    expected = sum(rack.expected_ns for rack in racks)
    return sum(rack.recorded_share * rack.expected_ns for rack in racks) / expected if expected else 0.0


def statements(figures: FleetFigures) -> list[Statement]:
    """Returns what to know of a fleet before trusting the figures."""
    lacking = [rack for rack in figures.racks if not rack.is_complete]
    found = [*_missing(figures.period)]
    if lacking:
        found.append(
            Statement(
                WARNING,
                f"{len(lacking):,} of {format_count(len(figures.racks), 'rack')} incomplete",
                f"{_lacking(lacking, figures.period)} The table of incomplete racks has them. Counts are lower bounds.",
            )
        )
    losing = [rack for rack in figures.racks if rack.losing_share]
    if losing:
        worst = max(losing, key=lambda rack: rack.losing_share or 0)
        head = f"Packets were dropped in {format_count(len(losing), 'rack')}"
        found.append(_losing(worst, head, f", of rack {worst.rack}"))
    return [*(found or [_complete()]), *_partly(recorded_share(figures.racks), figures.period)]


def rack_statements(figures: FleetRackFigures) -> list[Statement]:
    """Returns what to know of a rack before trusting the figures."""
    found, sums = [*_missing(figures.period)], figures.sums
    if not sums.recorded_ns:
        by_ports = (
            " Switch ports were recorded: the table of these has their bursts." if figures.answers.ports.count else ""
        )
        text = f"No host of this rack recorded what it receives.{by_ports}"
        found.append(Statement(NOTE, "No host was recorded" if by_ports else "Nothing was recorded", text))
    if not sums.is_complete:
        found.append(
            Statement(WARNING, "The rack is incomplete", f"{_lacking([sums], figures.period)} Counts are lower bounds.")
        )
    if sums.losing_share:
        found.append(_losing(sums, "Packets were dropped before they were counted", ""))
    return [*(found or [_complete()]), *_partly(sums.recorded_share, figures.period)]


def _partly(share: float, period: FleetPeriod) -> Iterator[Statement]:
    """Yields a statement if hosts were recorded for less than the whole time."""
    if share < WHOLE:
        of = "the days with results" if period.dates else "it"
        yield Statement(
            NOTE,
            "Not all of the time was recorded",
            f"Expected hosts were recorded for {format_share(share)} of {of}. Shares and rates are of recorded time.",
        )


def _lacking(racks: Sequence[RackSums], period: FleetPeriod) -> str:
    """Returns the missing data of incomplete racks."""
    silent = sum(rack.hosts_expected - rack.hosts_recorded for rack in racks)
    behind_ns, missing = max(rack.behind_ns for rack in racks), sum(rack.missing for rack in racks)
    noun = "file or table" if missing == 1 else "files or tables"
    parts = [
        *([silent_words(silent, period)] if silent else []),
        *([f"of the host that is furthest behind, {long(behind_ns)} have not arrived"] if behind_ns else []),
        *([f"{missing:,} {noun} could not be shipped"] if missing else []),
    ]
    text = "; ".join(parts) + "."
    return text[0].upper() + text[1:]


def silent_words(silent: int, period: FleetPeriod) -> str:
    """ "3 expected hosts without a recording", or ''."""
    return f"{format_count(silent, 'expected ' + counted(period))} without a recording" if silent else ""


def _complete() -> Statement:
    return Statement(
        GOOD,
        "All has arrived",
        "Of every expected host; every file is sound, and no packet was dropped before it was counted.",
    )


def _losing(worst: RackSums, head: str, where: str) -> Statement:
    share = worst.losing_share or 0.0
    return Statement(
        WARNING if share >= FEW_LOSING else NOTE,
        head,
        f"Packets were dropped in up to {format_share(share)} of the bins{where}. Their counts are lower bounds.",
    )


def _missing(period: FleetPeriod) -> Iterator[Statement]:
    if period.damaged:
        texts = [part.text for part in period.damaged]
        yield Statement(WARNING, f"{format_count(len(texts), 'partition')} damaged and left out", _named(texts))
    if period.undetected:
        texts = [part.text for part in period.undetected]
        yield Statement(
            WARNING,
            f"{format_count(len(texts), 'partition')} not detected",
            f"{_named(texts)} mburst fleet detect detects them.",
        )
    if period.unfit:
        texts = [part.text for part in period.unfit]
        yield Statement(
            WARNING,
            "Recordings of switch ports are left out",
            f"{_named(texts)} Their line rate is not known, or their bins do not make up those of the definition.",
        )
    if period.dates:
        yield Statement(WARNING, f"No results of {format_count(len(period.dates), 'day')}", _named(period.dates))


def _named(texts: Sequence[str]) -> str:
    more = f"; and {len(texts) - NAMED:,} more" if len(texts) > NAMED else ""
    return "; ".join(texts[:NAMED]) + more + "."


def meanings(figures: FleetFigures | FleetRackFigures) -> list[tuple[str, str]]:
    """Returns the meaning of the words of the page: (word, meaning)."""
    widths = {row["bin_ns"] for row in figures.answers.classes.rows}
    shared = definitions(figures.period.definition, next(iter(widths)) if len(widths) == 1 else None)
    return [entry for entry in shared if entry[0] in ("Utilization", "Burst", "Fan-in", "Quantiles")] + [
        (
            "Time in bursts",
            "of the recorded time of interfaces, inbound. A burst counts in the hour in which it begins, its time "
            "and its bytes in the hours that have them.",
        ),
        (
            "KS distance",
            "of the gaps between bursts of a recording from an exponential distribution, which they have where bursts "
            "come independently of each other; p is an upper bound of its probability then.",
        ),
        (
            "Hot",
            "a bin at or above the threshold. Listed is how many bins are hot after a hot bin, and after another one.",
        ),
        (
            "At once",
            "hosts of one rack that were receiving a burst at the same time. A switch port counts in place of the host "
            "behind it, on days on which that recorded nothing of what it receives there.",
        ),
        (
            "Shared buffer for one queue",
            "what one queue can have of the switch's buffer while n hosts are in a burst, each with a queue, if queues "
            "share it by dynamic thresholds: α / (1 + α n) with α = 1 (Choudhury and Hahne, 1998).",
        ),
        (
            "Sent most of",
            "bursts of which a sender sent more than every other one. A burst of which several sent as much goes to "
            "none of them.",
        ),
        (
            "Lossy",
            f"of a burst: retransmissions were seen in it, or in the {AFTER} after it and before the next one. "
            "The 95 % interval is Wilson's, as if bursts were independent of each other.",
        ),
        (
            "Relative risk",
            "of a switch queue: how many times as often a window has drops if it touches a burst of the host. The 95 % "
            "interval takes windows as independent of each other; `at least`: no other window has drops.",
        ),
        (
            "Recorded",
            "hosts of the inventory, and those that recorded or have ever shipped and are behind, are expected; "
            "switches are not. Of several interfaces of a host, the one recorded for longest counts.",
        ),
    ]
