"""The report of a fleet: a page for all racks and one for each rack, HTML without any script, and the same facts as
JSON.

The same results give the same bytes. Files are written atomically; their names have the days and the rack."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from ... import __version__
from ...analysis.fleet.answers import BurstAnswers
from ...analysis.fleet.report import FleetFigures, FleetPeriod, FleetRackFigures
from ...names import file_part
from ...units import format_count
from ..common import page
from ..common.blocks import LinkCell, Paragraph
from ..common.summaries import fleet_stem, with_summary
from ..common.words import doubt
from . import losses, pictures, ports, tables
from . import words as fleet_words

STYLE = ("common/page.css", "common/paper.css", "fleet/page.css")
ALL = "all racks"
LASTING = "The share of received bursts that last at most so long."
AT_ONCE = "For how long at least so many hosts of a rack were receiving a burst at once."


@dataclass(frozen=True)
class PageSection:
    """A heading, and the parts below it, which templates draw. Two sections that are HALF as wide as the page share a
    row."""

    head: str
    parts: Sequence[Any]
    half: bool = False


def stem(period: FleetPeriod) -> str:
    """Returns the name of a report's page, and of the folder of its racks' pages: the days."""
    return fleet_stem(period.since_ns, period.until_ns)


def rack_file(rack: str) -> str:
    """Returns the name of the files of a rack's page."""
    return file_part(rack)


def _folder_link(period: FleetPeriod, rack: str) -> str:
    return f"{quote(stem(period))}/{quote(rack_file(rack))}.html"


def render_fleet(figures: FleetFigures, written: Iterable[str]) -> str:
    """Returns the page of all racks, with links to the pages of racks in WRITTEN."""
    links = {rack: _folder_link(figures.period, rack) for rack in written}
    sums, answers = fleet_words.total(figures.racks), figures.answers
    statements = fleet_words.statements(figures)
    racks = [LinkCell(rack.rack, links[rack.rack]) for rack in figures.racks if rack.rack in links]
    return page.render(
        "fleet/page.html",
        policy=page.WITHOUT_SCRIPT,
        css=page.style(*STYLE),
        title=f"Fleet of {format_count(len(figures.racks), 'rack')}",
        up="",
        period=fleet_words.days(figures.period),
        verdict=fleet_words.verdict(sums, answers, f" in {format_count(len(figures.racks), 'rack')}"),
        tiles=fleet_words.tiles(sums, answers),
        more=fleet_words.further(sums, answers, fleet_words.recorded_share(figures.racks), figures.period),
        doubt=doubt(statements),
        statements=statements,
        sections=_fleet_sections(figures, links),
        racks=sorted(racks, key=lambda rack: rack.text),
        definitions=fleet_words.meanings(figures),
    )


def _fleet_sections(figures: FleetFigures, links: Mapping[str, str]) -> list[PageSection]:
    answers, racks = figures.answers, figures.racks
    return [
        PageSection(
            "Who receives bursts, and when",
            [pictures.over_time(figures.lines, figures.period, "rack", links, {"": ALL})],
        ),
        *_pictures(answers),
        PageSection("Racks", [tables.racks(racks, links)]),
        PageSection("Hosts", [tables.hosts(answers, links)]),
        *_tables(answers, links),
        PageSection("Incomplete racks", [tables.incomplete(figures, links)]),
    ]


def _rack_sections(figures: FleetRackFigures) -> list[PageSection]:
    answers = figures.answers
    shown = tables.of_many(len(figures.lines), figures.hosts, "host", "by bursts")
    return [
        PageSection(
            "Who receives bursts, and when",
            [pictures.over_time(figures.lines, figures.period, "host", {}, {}), Paragraph(shown, quiet=True)],
        ),
        *_pictures(answers),
        PageSection("Hosts", [tables.hosts(answers, None)]),
        *([PageSection("Why probes were late", tables.verdicts(figures))] if figures.verdicts.count else []),
        PageSection("Hours", [tables.hours(figures)]),
        *_tables(answers, None),
        PageSection("What has not arrived", [tables.lacking_of(figures)]),
    ]


def _pictures(answers: BurstAnswers) -> list[PageSection]:
    """Returns the figures that a fleet and a rack have, two in a row."""
    return [
        PageSection("How long bursts last", [Paragraph(LASTING, quiet=True), pictures.durations(answers)], half=True),
        PageSection("How many hosts at once", [Paragraph(AT_ONCE, quiet=True), pictures.at_once(answers)], half=True),
        PageSection("How many senders", [tables.fan_ins(answers)], half=True),
        PageSection("What is lost", tables.loss(answers), half=True),
        PageSection("Where it is lost", losses.places(answers)),
    ]


def _tables(answers: BurstAnswers, links: Mapping[str, str] | None) -> list[PageSection]:
    """Returns the tables that both have; they name racks if there are LINKS to their pages."""
    return [
        PageSection("Durations, gaps and bins", [tables.classes(answers)]),
        PageSection("Senders", [tables.senders(answers)]),
        PageSection("Hosts at once", [tables.at_once(answers)], half=True),
        PageSection("Loss", [tables.loss_cells(answers)], half=True),
        *([PageSection("Switch ports", ports.table(answers, links))] if answers.ports.count else []),
        PageSection("Drops of switch queues", losses.queues(answers, links)),
    ]


def render_rack(figures: FleetRackFigures) -> str:
    """Returns the page of a rack, which is in a folder next to the fleet's page."""
    answers, sums = figures.answers, figures.sums
    statements = fleet_words.rack_statements(figures)
    return page.render(
        "fleet/page.html",
        policy=page.WITHOUT_SCRIPT,
        css=page.style(*STYLE),
        title=f"Rack {figures.sums.rack}",
        up=f"../{quote(stem(figures.period))}.html",
        period=fleet_words.days(figures.period),
        verdict=fleet_words.verdict(sums, answers),
        tiles=fleet_words.tiles(sums, answers),
        more=fleet_words.further(sums, answers, sums.recorded_share, figures.period),
        doubt=doubt(statements),
        statements=statements,
        sections=_rack_sections(figures),
        racks=[],
        definitions=fleet_words.meanings(figures),
    )


def write_fleet(figures: FleetFigures, folder: Path, written: Iterable[str]) -> tuple[Path, Path]:
    """Write the page of all racks and its JSON. Returns their paths. Raises MburstError if the folder cannot be
    written."""
    base = folder / stem(figures.period)
    facts = with_summary(fleet_words.summary(figures), _facts(figures, "fleet"))
    return page.write_with_facts(base, render_fleet(figures, written), facts)


def write_rack(figures: FleetRackFigures, folder: Path) -> tuple[Path, Path]:
    """Write the page of a rack and its JSON. Returns their paths. Raises MburstError if the folder cannot be
    written."""
    base = folder / stem(figures.period) / rack_file(figures.sums.rack)
    facts = json.dumps(
        _facts(figures, "rack of a fleet"), ensure_ascii=False, sort_keys=True, indent=1, allow_nan=False
    )
    return page.write_with_facts(base, render_rack(figures), facts + "\n")


def _facts(figures: FleetFigures | FleetRackFigures, kind: str) -> dict[str, Any]:
    return {**asdict(figures), "slot_ns": figures.period.slot_ns, "mburst": __version__, "kind": kind}
