"""Switch ports: those that carry bursts, and hosts that are known only by their port."""

from __future__ import annotations

from collections.abc import Mapping

from ...analysis.fleet.answers import BurstAnswers, Row
from ...units import format_count, format_share
from ..common.blocks import PageTable, Paragraph
from ..common.words import duration, long
from .tables import Cells, bar, number, of_many, rack_cell, share

DIRECTIONS = {"out": "to the host", "in": "from the host"}
APART = (
    "As the switch counted them: what a host has recorded itself is here once more, and in no other table. The samples "
    "of a switch have no packets and no senders."
)


def table(answers: BurstAnswers, links: Mapping[str, str] | None) -> list[PageTable | Paragraph]:
    """Returns the switch ports with most time in bursts, with their racks if there are LINKS to those; and hosts that
    did not record what they receive through them."""
    shown = answers.ports.rows
    most = max(row["burst_share"] for row in shown)
    rows: list[Cells] = [
        [
            f"{row['device']} {row['port']}",
            *([] if links is None else [rack_cell(row["rack"], links)]),
            DIRECTIONS[row["direction"]],
            _host(row),
            bar(row["burst_share"], most),
            format_share(row["burst_share"]),
            number(row["bursts_per_h"]),
            duration(row["p99_ns"]),
            share(row["peak_utilization"]),
            share(row["losing_share"]),
            long(row["recorded_ns"]),
        ]
        for row in shown
    ]
    heads = [
        *(["Switch, port"] if links is None else ["Switch, port", "Rack"]),
        *(
            "Direction",
            "Host",
            "",
            "Time in bursts",
            "Bursts an hour",
            "p99 duration",
            "Fullest bin",
            "Bins without samples",
        ),
        "Recorded",
    ]
    caption = of_many(len(shown), answers.ports.count, "port direction", "by time in bursts")
    return [
        *_unrecorded(answers, links is not None),
        Paragraph(APART, quiet=True),
        PageTable(caption, heads, rows, 3 if links is None else 4),
    ]


def _host(row: Row) -> str:
    """Returns the host that is attached to a port."""
    if row["attached_host"] is None:
        return "not known"
    host = " ".join(part for part in (row["attached_host"], row["attached_interface"]) if part)
    return host if row["host_recorded"] else f"{host} (not recorded)"


def _unrecorded(answers: BurstAnswers, with_racks: bool) -> list[Paragraph]:
    """Returns the hosts that are known only by their switch port."""
    found = answers.port_hosts
    if not found.count:
        return []
    names = [f"{row['host']} in rack {row['rack']}" if with_racks else str(row["host"]) for row in found.rows]
    more = f" and {found.count - len(names):,} more" if found.count > len(names) else ""
    what = "it receives" if found.count == 1 else "they receive"
    head = f"{format_count(found.count, 'host')} recorded nothing of what {what} by these ports"
    text = f"{head}: {', '.join(names)}{more}. For how many hosts burst at once, the port counts in place of the host."
    return [Paragraph(text)]
