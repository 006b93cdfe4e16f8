"""The tables of a fleet's report, as data."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from ...analysis.fleet.answers import CELLS, BurstAnswers, Row
from ...analysis.fleet.report import LACKING, FleetFigures, FleetRackFigures, RackSums
from ...senders import named_address
from ...units import format_bytes, format_count, format_duration, format_number, format_share
from ..common.blocks import BarCell, LinkCell, PageTable, Paragraph
from ..common.words import PATTERN_NAMES, date, duration, long, moment
from .words import CAUSES, class_name, counted, lossy, lossy_words, range_name

AT_ONCE, TABLED, SUMMARIES = 12, 20, 12  # rows of tables: of hosts at once, and of racks; and verdicts in words
Cells = Sequence[str | BarCell | LinkCell]
Block = PageTable | Paragraph


def of_many(shown: int, total: int, noun: str, order: str) -> str:
    """ "30 of 1,000 racks, by time in bursts; and 970 more" """
    if shown == total:
        return f"{format_count(total, noun)}, {order}"
    return f"{shown:,} of {format_count(total, noun)}, {order}; and {total - shown:,} more"


def number(value: float | None) -> str:
    return "–" if value is None else format_number(value)


def bar(value: float, most: float) -> str | BarCell:
    """Returns a bar, relative to the longest one of MOST; '' for 0."""
    return BarCell(100 * value / most) if value else ""


def _time(ns: int) -> str:
    return long(ns) if ns else "0"


def share(value: float | None) -> str:
    return "–" if value is None else format_share(value)


def rack_cell(rack: str, links: Mapping[str, str]) -> str | LinkCell:
    """Returns the name of a rack, with a link to its page if there is one."""
    return LinkCell(rack, links[rack]) if rack in links else rack


def racks(found: Sequence[RackSums], links: Mapping[str, str]) -> Block:
    """Returns the racks with most time in bursts."""
    shown = [rack for rack in found if rack.recorded_ns][:TABLED]
    if not shown:
        return Paragraph("Nothing was recorded.")
    most = max(rack.burst_share for rack in shown)
    rows: list[Cells] = [
        [
            _linked(rack, links),
            bar(rack.burst_share, most),
            format_share(rack.burst_share),
            f"{rack.bursts:,}",
            f"{rack.bursting_hosts:,} of {rack.hosts:,}",
            _time(rack.shared_ns) if rack.known_ns else "–",
            "–" if rack.most_at_once is None else f"{rack.most_at_once:,}",
            number(rack.retransmits_per_gb),
            long(rack.recorded_ns),
        ]
        for rack in shown
    ]
    heads = [
        *("Rack", "", "Time in bursts", "Bursts", "Hosts with bursts", "Two or more at once", "Most at once"),
        *("Retransmissions per GB", "Recorded"),
    ]
    total = sum(bool(rack.recorded_ns) for rack in found)
    return PageTable(of_many(len(shown), total, "rack", "by time in bursts"), heads, rows, 2)


def _linked(rack: RackSums, links: Mapping[str, str]) -> str | LinkCell:
    warning = "" if rack.is_complete else "incomplete"
    return LinkCell(rack.rack, links[rack.rack], warning) if rack.rack in links else rack.rack


def hosts(answers: BurstAnswers, links: Mapping[str, str] | None) -> Block:
    """Returns the hosts with most time in bursts; with their racks if there are LINKS to those."""
    shown = [row for row in answers.hosts.rows if row["bursts_per_h"]]
    if not shown:
        return Paragraph("No host received a burst.")
    most = max(row["burst_share"] for row in shown)
    rows: list[Cells] = [
        [
            row["host"],
            *([] if links is None else [rack_cell(row["rack"], links)]),
            bar(row["burst_share"], most),
            format_share(row["burst_share"]),
            number(row["bursts_per_h"]),
            duration(row["p99_ns"]),
            "–" if row["max_fan_in"] is None else f"{row['max_fan_in']:,}",
            number(row["retransmits_per_gb"]),
            "–" if row["rank_last_week"] is None else f"{row['rank_last_week']:,}",
        ]
        for row in shown
    ]
    heads = [
        *(["Host"] if links is None else ["Host", "Rack"]),
        *("", "Time in bursts", "Bursts an hour", "p99 duration", "Largest fan-in", "Retransmissions per GB"),
        "Rank a week before",
    ]
    caption = of_many(len(shown), answers.bursting_hosts, "host", "by time in bursts")
    return PageTable(caption, heads, rows, 2 if links is None else 3)


def classes(answers: BurstAnswers) -> Block:
    """Returns durations, gaps and transitions between bins, for each class."""
    rows = [
        [
            class_name(row),
            f"{row['bursts']:,}",
            *(duration(row.get(name)) for name in ("p50_ns", "p90_ns", "p99_ns", "longest_ns", "p50_gap_ns")),
            "–" if row.get("ks_d") is None else f"{row['ks_d']:.3g}{_p_value(row['p_value'])}",
            *(share(row.get(name)) for name in ("p_hot_after_hot", "p_hot_after_cold", "share_of_bytes")),
            " / ".join(number(row.get(name)) for name in ("mean_in", "mean_out")),
        ]
        for row in answers.classes.rows
    ]
    if not rows:
        return Paragraph("Nothing was recorded.")
    heads = [
        *("Service, direction, link, bins", "Bursts", "Median", "p90", "p99", "Longest", "Median gap", "KS distance"),
        *("Hot after hot", "Hot after cold", "Bytes in bursts", "Mean packet inside / outside bursts, bytes"),
    ]
    return PageTable(of_many(len(rows), answers.classes.count, "group", "by bursts"), heads, rows)


def _p_value(bound: float | None) -> str:
    return "" if bound is None else f" (p ≤ {bound:g})"


def at_once(answers: BurstAnswers) -> Block:
    """Returns the time for each number of hosts in a burst at once."""
    known = sum(row["ns"] for row in answers.at_once)
    rows = [
        [
            f"{row['hosts_at_once']:,}",
            long(row["ns"]),
            format_share(row["ns"] / known),
            format_share(row["buffer_share"]),
        ]
        for row in answers.at_once[:AT_ONCE]
    ]
    if not rows:
        return Paragraph("It is not known when hosts of a rack were recorded together.")
    caption = of_many(len(rows), len(answers.at_once), "number", "of hosts of a rack in a burst at once")
    return PageTable(caption, ["Hosts at once", "Time", "Of the time", "Shared buffer for one queue"], rows, 0)


def fan_ins(answers: BurstAnswers) -> Block:
    """Returns received bursts by the number of their senders."""
    if not answers.fan_ins:
        return Paragraph("No burst was received.")
    sums: dict[int, dict[str, int]] = {}
    for row in answers.fan_ins:
        sums.setdefault(row["least"], {})[row["pattern"]] = row["bursts"]
    total, most = sum(row["bursts"] for row in answers.fan_ins), max(sum(of.values()) for of in sums.values())
    rows: list[Cells] = [
        [
            range_name(least, 2 * least) if least else "not known",
            bar(sum(of.values()), most),
            f"{sum(of.values()):,}",
            format_share(sum(of.values()) / total),
            _mostly(of),
        ]
        for least, of in sums.items()
    ]
    return PageTable(
        f"{format_count(total, 'burst')} by senders at once", ["Fan-in", "", "Bursts", "Of all", "Mostly"], rows, 2
    )


def _mostly(patterns: Mapping[str, int]) -> str:
    """Returns the pattern of most bursts, and its share of all."""
    name, most = max(patterns.items(), key=lambda one: (one[1], one[0]))
    return f"{PATTERN_NAMES.get(name, name)} ({format_share(most / sum(patterns.values()))})"


def senders(answers: BurstAnswers) -> Block:
    """Returns the senders in the fan-in of bursts of most racks and hosts."""
    if not answers.senders.rows:
        return Paragraph("No sender is known.")
    rows = [
        [
            named_address(row["source"], row.get("name")),
            row["service"] or "–",
            f"{row['racks']:,}",
            f"{row['hosts']:,}",
            f"{row['bursts']:,}",
            f"{row['led']:,}",
            format_bytes(row["bytes"]),
            moment(row["first_seen"]) + (" (new this week)" if row["new_this_week"] else ""),
        ]
        for row in answers.senders.rows
    ]
    heads = ["Sender", "Service", "To racks", "To hosts", "Bursts", "Sent most of", "Bytes in bursts", "First seen"]
    caption = of_many(len(rows), answers.senders.count, "sender", "by racks and hosts that received bursts from them")
    return PageTable(caption, heads, rows, 2)


# --- loss -------------------------------------------------------------------------------------------------------------

_ENDS: dict[str, tuple[int, ...]] = {
    "length_class": (0, 10**5, 10**6, 10**7, 10**8),
    "contention_class": (1, 2, 4, 8, 16),
    "fan_in_class": (0, 1, 2, 4, 8, 16, 32, 64),
}


def loss(answers: BurstAnswers) -> list[Block]:
    """Returns the bursts with retransmissions: by duration, by hosts at once and by fan-in."""
    if not answers.loss:
        return [Paragraph("Retransmissions were not counted." if answers.bursts else "No burst was received.")]
    return [
        *([Paragraph(f"{lossy_words(answers)}.", quiet=True)] if lossy(answers)[1] < answers.bursts else []),
        _lossy(answers.loss, "length_class", "Lossy bursts by duration", "Duration"),
        _lossy(answers.loss, "contention_class", "By hosts of the rack in a burst when it begins", "Hosts at once"),
        _lossy(answers.loss, "fan_in_class", "By fan-in", "Fan-in"),
    ]


def loss_cells(answers: BurstAnswers) -> Block:
    """Returns the combinations of duration, hosts at once and fan-in with most lossy bursts."""
    cells = [row for row in answers.loss if row["lossy"]]
    if not cells:
        return Paragraph(f"{lossy_words(answers)}.")
    shown = sorted(cells, key=lambda cell: -cell["lossy"])[:CELLS]
    rows = [
        [
            *(class_text(name, cell[name]) for name in _ENDS),
            f"{cell['lossy']:,} of {cell['bursts']:,}",
            format_share(cell["lossy_share"]),
            f"{format_number(100 * cell['low'])} – {format_share(cell['high'])}",
        ]
        for cell in shown
    ]
    heads = ["Duration", "At once", "Fan-in", "Lossy", "Share", "95 % interval"]
    return PageTable(of_many(len(shown), len(cells), "combination", "by lossy bursts"), heads, rows, 3)


def _lossy(cells: Iterable[Row], name: str, caption: str, head: str) -> PageTable:
    sums: dict[int, tuple[int, int]] = {}
    for cell in cells:
        lossy, bursts = sums.get(cell[name], (0, 0))
        sums[cell[name]] = lossy + cell["lossy"], bursts + cell["bursts"]
    most = max(lossy / bursts for lossy, bursts in sums.values())
    rows: list[Cells] = [
        [class_text(name, value), bar(lossy / bursts, most), format_share(lossy / bursts), f"{lossy:,}", f"{bursts:,}"]
        for value, (lossy, bursts) in sorted(sums.items())
    ]
    return PageTable(caption, [head, "", "Lossy", "Lossy bursts", "Of bursts"], rows, 2)


def class_text(name: str, least: int) -> str:
    """Returns the range of values of a class of the question `loss`."""
    following = next((end for end in _ENDS[name] if end > least), None)
    if name != "length_class":
        return "not known" if name == "fan_in_class" and not least else range_name(least, following)
    if not least:
        return f"below {format_duration(following or 0)}"
    return (
        f"{format_duration(least)} and longer"
        if following is None
        else f"{format_duration(least)} – {format_duration(following)}"
    )


# --- missing data ----------------------------------------------------------------------------------------------------


def incomplete(figures: FleetFigures, links: Mapping[str, str]) -> Block:
    """Returns the racks with missing data, the least recorded first."""
    lacking = sorted(
        (rack for rack in figures.racks if not rack.is_complete), key=lambda rack: (rack.recorded_share, rack.rack)
    )
    if not lacking:
        return Paragraph(f"All has arrived of {format_count(len(figures.racks), 'rack')}.")
    rows: list[Cells] = [
        [
            _linked(rack, links),
            f"{rack.hosts_recorded:,} of {rack.hosts_expected:,}",
            format_share(rack.recorded_share),
            long(rack.behind_ns) if rack.behind_ns else "–",
            f"{rack.missing:,}",
            share(rack.losing_share),
        ]
        for rack in lacking[:LACKING]
    ]
    unit = counted(figures.period).capitalize()
    heads = [
        "Rack",
        f"{unit}s recorded",
        "Of their time",
        "Furthest behind",
        "Files or tables missing",
        "Bins with drops",
    ]
    return PageTable(of_many(len(rows), len(lacking), "incomplete rack", "the least recorded first"), heads, rows)


def lacking_of(figures: FleetRackFigures) -> Block:
    """Returns the missing data of a rack, by host."""
    found = figures.lacking
    if not found.rows:
        return Paragraph("All has arrived of every host that ships.")
    rows = [
        [
            row["host"] or "–",
            date(row["day_ns"]),
            row["reason"]
            or ("never shipped" if row["behind_ns"] is None else f"{long(row['behind_ns'])} have not arrived"),
        ]
        for row in found.rows
    ]
    return PageTable(
        of_many(len(rows), found.count, "missing part", "hosts first"), ["Host", "Day", "Missing"], rows, 3
    )


def verdicts(figures: FleetRackFigures) -> list[Block]:
    """Returns why probes of the rack's hosts were late: a table, and a text if any were."""
    found = figures.verdicts
    rows = [
        [
            row["host"],
            moment(row["start_ns"]),
            long(row["end_ns"] - row["start_ns"]),
            CAUSES.get(row["cause"], "not investigated"),
            share(row["excess_share"]),
        ]
        for row in found.rows
    ]
    caption = of_many(len(rows), found.count, "verdict", "by lateness")
    table = PageTable(caption, ["Host", "From", "For", "Cause", "Of all lateness, in bursts"], rows, 4)
    late = [
        f"{row['host']}, {moment(row['start_ns'])}: {row['summary']}" for row in found.rows if row["cause"] != "none"
    ]
    more = [f"The JSON beside this page has {len(late) - SUMMARIES:,} more of them."] if late[SUMMARIES:] else []
    return [table, *map(Paragraph, late[:SUMMARIES]), *(Paragraph(text, quiet=True) for text in more)]


def hours(figures: FleetRackFigures) -> Block:
    """Returns the hours of a rack, and whether its days resemble the days before."""
    rows = [
        [
            moment(row["hour_ns"]),
            number(row["bursts_per_h"]),
            number(row["p50_fan_in"]),
            number(row["contention_p90"]),
            "–" if row["r_with_day_before"] is None else f"{row['r_with_day_before']:.2f}",
        ]
        for row in figures.hours.rows
    ]
    if not rows:
        return Paragraph("Nothing was recorded.")
    heads = ["Hour, UTC", "Bursts an hour", "Median fan-in", "Hosts at once, p90", "r with the day before"]
    order = "those of most bursts" if figures.hours.count > len(rows) else "in their order"
    return PageTable(of_many(len(rows), figures.hours.count, "hour", order), heads, rows)
