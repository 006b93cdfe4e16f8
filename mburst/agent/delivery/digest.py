"""The digest of a report's period: one line for each rack, as text, as an HTML table and as a picture."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from ... import files
from ...dashboards.common.page import render
from ...dashboards.common.summaries import doubts, is_fleet, lacks, summaries
from ...dashboards.common.words import moment
from ...dashboards.rack import words as rack_words
from ...names import short, shown
from ...units import format_count, format_duration, format_share
from .ledger import DeliveryKey

if TYPE_CHECKING:
    from ..schedule.retention import KeptReports

MOST_RACKS = 100  # in a message; the index has all
MOST_NAME, MOST_WORDS = 100, 1000  # characters of a name, and of its text
MOST_LEFT_OUT = 10
HEADS = ("Hosts in bursts", "Bursts", "Of the time", "Longest", "Dropped by the switch", "In words")


@dataclass(frozen=True)
class DigestEntry:
    """The report of a rack or of a fleet: its files and its summary."""

    page: Path
    facts: Path
    summary: dict[str, Any]

    @property
    def is_fleet(self) -> bool:
        """Whether it is the report of a fleet, not of a rack."""
        return is_fleet(self.page.name)

    @property
    def lacks(self) -> str:
        """Why it is not known whether a host received a burst, such as "nothing recorded"; '' if it is known."""
        return _words(lacks(self.summary))

    @property
    def is_doubtful(self) -> bool:
        """Whether the report is worth sending without any burst: a host that should have recorded did not."""
        return bool(self.lacks or self.summary["missing"])

    @property
    def is_partial(self) -> bool:
        """Whether something is known, but of a part of the time alone."""
        return not self.lacks and bool(self.summary["recorded_part"])

    @property
    def rank(self) -> tuple[bool, float, bool, bool]:
        """The place in a message, which may name only the first ones."""
        return not self.summary["bursts"], -self.summary["share"], not self.is_doubtful, not self.is_partial

    @property
    def name(self) -> str:
        """ "rack r1", or "fleet"."""
        return f"{'' if self.is_fleet else 'rack '}{_rack(self)}"

    @property
    def doubts(self) -> list[str]:
        """What every kind of delivery states beside the verdict."""
        return [_words(doubt) for doubt in doubts(self.summary)]

    def stated(self, figure: str) -> str:
        """Returns a FIGURE of the period with the part of the time that it is of."""
        if self.lacks:
            return self.lacks
        part = _words(self.summary["recorded_part"])
        recorded = "" if self.is_fleet else " recorded"  # a fleet's part is a statement
        return f"{figure}, {part}{recorded}" if part else figure

    @property
    def more(self) -> list[Path]:
        """The pages and facts of a fleet's racks."""
        return sorted(self.page.with_suffix("").glob("*")) if self.is_fleet else []


@dataclass(frozen=True)
class Digest:
    """All racks of a report and period, and earlier failures of delivery. `kept` are the reports that stay in a folder
    that collects them; None: all."""

    report: str
    since_ns: int
    until_ns: int
    folder: Path
    entries: Sequence[DigestEntry]
    troubles: Sequence[str]
    kept: KeptReports | None = None

    @classmethod
    def read(
        cls,
        report: str,
        folder: Path,
        since_ns: int,
        until_ns: int,
        troubles: Sequence[str],
        kept: KeptReports | None = None,
        racks: Sequence[str] | None = None,
    ) -> Digest:
        """Returns the digest of this user's own reports of RACKS (None: of all) in a folder: those with the largest
        share of time in bursts first, then those of which not all is known. A file of another user is a trouble."""

        def listed(own: bool) -> list[tuple[str, dict[str, Any]]]:
            found = summaries(folder, (since_ns, until_ns), own=own)
            return [one for one in found if racks is None or one[1]["rack"] in racks]

        own = listed(own=True)
        found = [DigestEntry(folder / f"{name}.html", folder / f"{name}.json", summary) for name, summary in own]
        found.sort(key=lambda entry: (*entry.rank, entry.summary["rack"]))
        foreign = {name for name, _ in listed(own=False)} - {name for name, _ in own}
        left_out = [
            f"{short(name, MOST_NAME)} is left out: not a regular file of this user"
            for name in sorted(foreign)[:MOST_LEFT_OUT]
        ]
        return cls(report, since_ns, until_ns, folder, found, [*troubles, *left_out], kept)

    def key(self, to: str) -> DeliveryKey:
        return DeliveryKey(self.report, self.since_ns, self.until_ns, to)

    @property
    def bursting(self) -> list[DigestEntry]:
        return [entry for entry in self.entries if entry.summary["bursts"]]

    @property
    def is_calm(self) -> bool:
        """Whether every host that recorded before was recorded and none received a burst, and no delivery failed."""
        calm = not any(entry.is_doubtful or entry.summary["bursts"] for entry in self.entries)
        return bool(self.entries) and calm and not self.troubles

    @property
    def period(self) -> str:
        return rack_words.period(self.since_ns, self.until_ns)

    @property
    def title(self) -> str:
        """The subject of a message."""
        return f"Microbursts, {self.period}: {self._head()}"

    def _head(self) -> str:
        if not self.entries:
            return "no report"
        if len(self.entries) == 1:
            [entry] = self.entries
            return f"{entry.name}: {entry.stated(format_count(entry.summary['bursts'], 'burst'))}"
        if unknown := _unknown(self.entries):
            return f"{format_count(len(self.entries), 'rack')}: {unknown}"
        bursts = sum(entry.summary["bursts"] for entry in self.entries)
        parts = [
            f"{format_count(bursts, 'burst')} in {len(self.bursting)} of {format_count(len(self.entries), 'rack')}",
            *_lacking(self.entries),
            *_partial(self.entries),
        ]
        return ", ".join(parts)

    def text(self, site: str) -> str:
        """The message as plain text."""
        lines = [self.title, ""]
        for entry in self.entries[:MOST_RACKS]:
            lines.append(f"{_rack(entry)}: {_words(entry.summary['verdict'])}")
            lines += [f"  ! {doubt}" for doubt in entry.doubts]
            lines += [f"  {link}"] if (link := _link(site, entry)) else []
        lines += self.left_out(MOST_RACKS)
        if self.troubles:
            lines += ["", "Of earlier deliveries:", *map(shown, self.troubles)]
        return "\n".join(lines) + "\n"

    def left_out(self, most: int) -> list[str]:
        """Returns a line on the entries after the first MOST, if there are any."""
        if not (rest := self.entries[most:]):
            return []
        more, partial = f"and {format_count(len(rest), 'rack')} more", _partial(rest)
        if unknown := _unknown(rest):
            return [f"{more}: {unknown}"]
        # If one of these burst, all before them did, for more of the time.
        bursting = any(entry.summary["bursts"] for entry in rest)
        if lacking := _lacking(rest):
            known = f"{'less of the time in bursts' if bursting else 'no burst'} in the others"
            return [f"{more}: {', '.join([*lacking, known, *partial])}"]
        return [", ".join([f"{more} {'with less of the time in bursts' if bursting else 'without a burst'}", *partial])]

    def html(self, site: str, picture: str) -> str:
        """Returns the message as HTML that mail programs can show; `picture` is the source of the image."""
        return render(
            "rack/mail.html",
            title=self.title,
            troubles=self.troubles,
            picture=picture,
            heads=["Rack", *HEADS],
            rows=[(_rack(entry), _link(site, entry), _cells(entry)) for entry in self.entries[:MOST_RACKS]],
            left_out=self.left_out(MOST_RACKS),
        )

    def grid(self) -> tuple[list[str], list[list[float | None]], list[str]]:
        """Returns names of the rows, shares of time in bursts by slot (None: not recorded), and labels of the slots.
        Rows are hosts if there is one rack, else racks."""
        rows: list[tuple[str, list[float | None]]] = []
        labels: list[str] = []
        for entry in self.entries[:MOST_RACKS]:
            facts = json.loads(files.read_own(entry.facts))
            if entry.is_fleet:
                labels, rows = _of_fleet(facts)
                break
            inbound = list(zip(facts["inbound"], facts["cells"], strict=True))
            if not inbound:  # nothing was recorded
                rows += [(shown(facts["rack"]), [])] if len(self.entries) > 1 else []
                continue
            slots = range(len(inbound[0][1]))
            labels = [moment((facts["first_slot"] + i) * facts["slot_ns"])[5:] for i in slots]
            if len(self.entries) == 1:
                rows += [
                    (shown(f"{lane['host']} {lane['interface']}"), [_share([cell]) for cell in cells])
                    for lane, cells in inbound
                ]
            else:
                rows.append((shown(facts["rack"]), [_share([cells[i] for _, cells in inbound]) for i in slots]))
        return [name for name, _ in rows], [shares or [None] * len(labels) for _, shares in rows], labels


def _of_fleet(facts: dict[str, Any]) -> tuple[list[str], list[tuple[str, list[float | None]]]]:
    """Returns the labels of the slots, and the shares of time in bursts of each rack on a fleet's page."""
    period, lines = facts["period"], [line for line in facts["lines"] if line["name"]]
    since_ns, slot_ns = period["since_ns"], facts["slot_ns"]
    labels = [moment(since_ns + i * slot_ns)[5:] for i in range(len(lines[0]["bursts"]) if lines else 0)]
    rows: list[tuple[str, list[float | None]]] = [
        (
            shown(line["name"]),
            [
                of / recorded if recorded else None
                for of, recorded in zip(line["burst_ns"], line["recorded_ns"], strict=True)
            ],
        )
        for line in lines[:MOST_RACKS]
    ]
    return labels, rows


def _lacking(entries: Sequence[DigestEntry]) -> list[str]:
    """Returns why something is not known, each with the number of the entries: "nothing recorded of 2"."""
    return [f"{lack} of {count}" for lack, count in Counter(entry.lacks for entry in entries if entry.lacks).items()]


def _partial(entries: Sequence[DigestEntry]) -> list[str]:
    """Returns how many of ENTRIES were recorded in part, if there are any."""
    number = sum(entry.is_partial for entry in entries)
    return [f"{number} recorded in part"] if number else []


def _unknown(entries: Sequence[DigestEntry]) -> str:
    """Returns why nothing is known of any of ENTRIES, in place of figures; '' if something is."""
    reasons = {entry.lacks for entry in entries}
    return "" if "" in reasons else reasons.pop() if len(reasons) == 1 else ", ".join(_lacking(entries))


def _rack(entry: DigestEntry) -> str:
    return short(entry.summary["rack"], MOST_NAME)


def _words(text: str) -> str:
    return short(text, MOST_WORDS)


def _link(site: str, entry: DigestEntry) -> str:
    """Returns the address of the published page, or ''."""
    return f"{site}/{quote(entry.page.name)}" if site else ""


def _cells(entry: DigestEntry) -> list[str]:
    """Returns the cells for the columns in HEADS."""
    summary = entry.summary
    said = _words(" ".join([summary["verdict"], *(f"({doubt}.)" for doubt in entry.doubts)]))
    if entry.lacks:
        return [*("–" for _ in HEADS[1:]), said]
    return [
        f"{summary['bursting_hosts']} of {summary['hosts']}",
        f"{summary['bursts']:,}",
        format_share(summary["share"]),
        format_duration(summary["longest_ns"]) if summary["longest_ns"] else "–",
        "–" if summary["queue_drops"] is None else f"{summary['queue_drops']:,}",
        said,
    ]


def _share(cells: Sequence[dict[str, int]]) -> float | None:
    recorded = sum(cell["recorded_ns"] for cell in cells)
    return sum(cell["burst_ns"] for cell in cells) / recorded if recorded else None
