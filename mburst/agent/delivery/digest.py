"""What a message says of a report's period: a line a rack, in words, as an HTML table and as a picture."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from ... import files
from ...dashboards.common.words import count
from ...dashboards.rack import page
from ...dashboards.rack import words as rack_words
from ...names import escape, short, shown
from ...units import format_duration, format_share
from .ledger import Key

MOST_RACKS = 100  # in a message; the index has all
MOST_NAME, MOST_WORDS = 100, 1000  # characters of a name and of the text about it
MOST_LEFT_OUT = 10


@dataclass(frozen=True)
class Entry:
    """A rack's report: its files and its summary."""

    page: Path
    facts: Path
    summary: dict[str, Any]


@dataclass(frozen=True)
class Digest:
    """All racks of a report and period, and what could not be delivered before."""

    report: str
    since_ns: int
    until_ns: int
    folder: Path
    entries: Sequence[Entry]
    troubles: Sequence[str]

    @classmethod
    def read(cls, report: str, folder: Path, since_ns: int, until_ns: int, troubles: Sequence[str]) -> Digest:
        """The digest of this user's own reports in a folder, those with most of the time in bursts first. A file that
        somebody else put there is a trouble."""
        own = page.summaries(folder, (since_ns, until_ns), own=True)
        found = [Entry(folder / f"{name}.html", folder / f"{name}.json", summary) for name, summary in own]
        found.sort(key=lambda entry: (-entry.summary["share"], entry.summary["rack"]))
        foreign = {name for name, _ in page.summaries(folder, (since_ns, until_ns))} - {name for name, _ in own}
        left_out = [f"{short(name, MOST_NAME)} is left out: not a regular file of this user"
                    for name in sorted(foreign)[:MOST_LEFT_OUT]]
        return cls(report, since_ns, until_ns, folder, found, [*troubles, *left_out])

    def key(self, to: str) -> Key:
        return Key(self.report, self.since_ns, self.until_ns, to)

    @property
    def bursting(self) -> list[Entry]:
        return [entry for entry in self.entries if entry.summary["bursts"]]

    @property
    def period(self) -> str:
        return rack_words.period(self.since_ns, self.until_ns)

    @property
    def title(self) -> str:
        """The subject of a message."""
        if len(self.entries) == 1:
            summary = self.entries[0].summary
            head = f"rack {short(summary['rack'], MOST_NAME)}: {count(summary['bursts'], 'burst')}"
        else:
            bursts = sum(entry.summary["bursts"] for entry in self.entries)
            head = f"{count(bursts, 'burst')} in {len(self.bursting)} of {count(len(self.entries), 'rack')}"
        return f"Microbursts, {self.period}: {head}"

    def text(self, site: str) -> str:
        """The message as plain text."""
        lines = [self.title, ""]
        for entry in self.entries[:MOST_RACKS]:
            lines.append(f"{short(entry.summary['rack'], MOST_NAME)}: {short(entry.summary['verdict'], MOST_WORDS)}")
            lines += [f"  ! {short(warning, MOST_WORDS)}" for warning in entry.summary["warnings"]]
            lines += [f"  {site}/{quote(entry.page.name)}"] if site else []
        lines += self._left_out()
        if self.troubles:
            lines += ["", "Of earlier deliveries:", *map(shown, self.troubles)]
        return "\n".join(lines) + "\n"

    def _left_out(self) -> list[str]:
        more = len(self.entries) - MOST_RACKS
        return [f"and {count(more, 'rack')} more with less of the time in bursts"] if more > 0 else []

    def html(self, site: str, picture: str) -> str:
        """The message as HTML that mail programs show: a table, inline styles, `picture` the source of the image."""
        cell = 'style="padding:5px 12px 5px 0;border-bottom:1px solid #dfe2e1;text-align:left;vertical-align:top"'
        head = "".join(f"<th {cell}>{name}</th>" for name in (
            "Rack", "Hosts in bursts", "Bursts", "Of the time", "Longest", "Dropped by the switch", "In words"))
        rows = []
        for entry in self.entries[:MOST_RACKS]:
            summary = entry.summary
            name = escape(short(summary["rack"], MOST_NAME))
            name = f'<a href="{escape(site)}/{escape(quote(entry.page.name))}">{name}</a>' if site else name
            sentences = [summary["verdict"], *(f"({warning}.)" for warning in summary["warnings"])]
            words = short(" ".join(sentences), MOST_WORDS)
            cells = [f"{summary['bursting_hosts']} of {summary['hosts']}", f"{summary['bursts']:,}",
                     format_share(summary["share"]),
                     format_duration(summary["longest_ns"]) if summary["longest_ns"] else "–",
                     f"{summary['queue_drops']:,}", words]
            cells = [name, *map(escape, cells)]
            rows.append("<tr>" + "".join(f"<td {cell}>{text}</td>" for text in cells) + "</tr>")
        more = "".join(f"<p>{escape(line)}</p>" for line in self._left_out())
        troubles = "".join(f'<p style="color:#b42318">{escape(line)}</p>' for line in self.troubles)
        return (f'<html><body style="font-family:sans-serif;font-size:14px;color:#1d2227"><h2>{escape(self.title)}</h2>'
                f'{troubles}<p><img src="{picture}" alt="Share of time in bursts by rack or host and hour; the table '
                f'below has the sums."></p><table style="border-collapse:collapse;font-size:13px"><tr>{head}</tr>'
                f'{"".join(rows)}</table>{more}</body></html>')

    def grid(self) -> tuple[list[str], list[list[float | None]], list[str]]:
        """Rows, shares of time in bursts by slot (None: not recorded), and labels of the slots: of hosts where there is
        one rack, else of racks."""
        rows: list[tuple[str, list[float | None]]] = []
        labels: list[str] = []
        for entry in self.entries[:MOST_RACKS]:
            facts = json.loads(files.read_own(entry.facts))
            inbound = [(lane, cells) for lane, cells in zip(facts["lanes"], facts["cells"], strict=True)
                       if lane["direction"] != "out"]
            if not inbound:
                continue
            slots = range(len(inbound[0][1]))
            labels = [rack_words.moment((facts["first_slot"] + i) * facts["slot_ns"])[5:] for i in slots]
            if len(self.entries) == 1:
                rows += [(shown(f"{lane['host']} {lane['interface']}"), [_share([cell]) for cell in cells])
                         for lane, cells in inbound]
            else:
                rows.append((shown(facts["rack"]), [_share([cells[i] for _, cells in inbound]) for i in slots]))
        return [name for name, _ in rows], [shares for _, shares in rows], labels


def _share(cells: Sequence[dict[str, int]]) -> float | None:
    recorded = sum(cell["recorded_ns"] for cell in cells)
    return sum(cell["burst_ns"] for cell in cells) / recorded if recorded else None
