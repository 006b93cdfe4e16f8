"""Where losses occur: in bursts, soon after them or elsewhere; and the drops of switch queues."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ...analysis.fleet.answers import BurstAnswers, Row
from ...units import format_count, format_number, format_share
from ..common.blocks import PageTable, Paragraph
from ..common.words import long
from .tables import Cells, of_many, rack_cell, share
from .words import AFTER, CAUSES

MEASURES = {
    "time": "Recorded time",
    "retransmits": "Retransmissions",
    "ce_packets": "CE marks",
    "drops": "Switch drops",
}
PARTS = {"in_bursts": "in bursts", "after": f"in the {AFTER} after a burst", "elsewhere": "elsewhere"}
TIMES = "The first bar is how much of the time was in bursts: losses that come at any time are divided as it is."
NOT_ASKED = (
    "Whether these hosts' probes were late for it: not known. Where hosts ship probes, mburst fleet detect --verdicts "
    "investigates it."
)
NO_QUEUE = "Switch drops: not known, since no link ties a switch queue to a host that was recorded."
LEFT, WIDTH, ROW, BAR = 130, 620, 34, 20  # of the image, in pixels


@dataclass(frozen=True)
class PartOfBar:
    """A part of a bar: its CSS class, its position, and its text."""

    kind: str
    x: float
    width: float
    text: str


@dataclass(frozen=True)
class DividedBar:
    """A bar, divided into its parts, and the text beside it."""

    name: str
    y: int
    parts: Sequence[PartOfBar]
    text: str


@dataclass(frozen=True)
class DividedBars:
    """Bars of equal length; each represents the total of its measure. `legend`: CSS class and name of each part."""

    label: str
    legend: Sequence[tuple[str, str]]
    bars: Sequence[DividedBar]
    template = "fleet/bars.html"
    left, width, bar = LEFT, WIDTH, BAR

    @property
    def height(self) -> int:
        """The height of the image."""
        return ROW * len(self.bars)


def places(answers: BurstAnswers) -> list[DividedBars | Paragraph]:
    """Returns the figure of where losses occur, and the measures that it lacks."""
    counted = [row for row in answers.losses if _total(row)]
    none = [MEASURES[row["measure"]] for row in answers.losses if not _total(row) and not row["uncounted_ns"]]
    if not counted:
        return [Paragraph("Nothing was recorded.")]
    bars = [_bar(row, at) for at, row in enumerate(counted)]
    label = "Shares of time, of retransmissions, of CE marks and of switch drops in bursts, after them and elsewhere"
    found: list[DividedBars | Paragraph] = [
        Paragraph(TIMES, quiet=True),
        DividedBars(label, [(name, text) for name, text in PARTS.items()], bars),
    ]
    if none:
        found.append(Paragraph(f"None in this time: {', '.join(none)}.", quiet=True))
    found += [_uncounted(row) for row in answers.losses if row["uncounted_ns"]]
    if not any(row["measure"] == "drops" for row in answers.losses):
        found.append(Paragraph(NO_QUEUE, quiet=True))
    return found


def _total(row: Row) -> int:
    return sum(row[part] or 0 for part in PARTS)


def _uncounted(row: Row) -> Paragraph:
    unknown = f"{MEASURES[row['measure']]}: not counted in {long(row['uncounted_ns'])} of the recorded time"
    return Paragraph(f"{unknown} (an mburst before --backend ebpf counted it).", quiet=True)


def _bar(row: Row, at: int) -> DividedBar:
    """Returns the bar of a measure, which has at least one part."""
    whole, x, parts, texts = _total(row), float(LEFT), [], []
    for part, name in PARTS.items():
        amount = row[part]
        if amount is None:
            continue
        width = (WIDTH - LEFT) * amount / whole
        text = f"{format_share(amount / whole)} {name}"
        texts.append(text)
        if amount:
            parts.append(PartOfBar(part, x, width, f"{MEASURES[row['measure']]}: {text}"))
        x += width
    amount_text = long(whole) if row["measure"] == "time" else f"{whole:,}"
    return DividedBar(MEASURES[row["measure"]], at * ROW, parts, f"{amount_text}: {', '.join(texts)}")


def risk(row: Row) -> str:
    """ "3 (1.1 to 8.2)", with the 95 % interval; "at least 4.2" if no window without a burst has drops."""
    low, high = row["relative_risk_low"], row["relative_risk_high"]
    if low is None:
        return "–"
    return (
        f"at least {format_number(low)}"
        if high is None
        else f"{format_number(row['relative_risk'])} ({format_number(low)} to {format_number(high)})"
    )


def queues(answers: BurstAnswers, links: Mapping[str, str] | None) -> list[PageTable | Paragraph]:
    """Returns the switch queues with most drops."""
    if not answers.switch_drops.count:
        return [Paragraph(NO_QUEUE)]
    shown = [row for row in answers.switch_drops.rows if row["drops"]]
    if not shown:
        queues = format_count(answers.switch_drops.count, "switch queue")
        return [Paragraph(f"No packet was dropped by {queues} of hosts.")]
    is_explained = any(row["cause"] for row in shown)
    rows: list[Cells] = [
        [
            row["host"],
            *([] if links is None else [rack_cell(row["rack"], links)]),
            " ".join(part for part in (row["device"], row["port"], row["queue"]) if part),
            f"{row['drops']:,}",
            share(row["drops_in_burst_share"]),
            risk(row),
            f"{row['windows']:,}",
            *([CAUSES.get(row["cause"], "–")] if is_explained else []),
        ]
        for row in shown
    ]
    heads = [
        *(["Host"] if links is None else ["Host", "Rack"]),
        *("Switch, port, queue", "Drops", "In bursts", "Relative risk", "Windows"),
        *(["Cause of late probes"] if is_explained else []),
    ]
    caption = of_many(len(shown), answers.switch_drops.count, "switch queue", "by drops")
    table = PageTable(caption, heads, rows, 2 if links is None else 3)
    return [table] if is_explained else [table, Paragraph(NOT_ASKED, quiet=True)]
