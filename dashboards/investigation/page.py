"""An investigation for a terminal, as Markdown for a ticket, and as one self-contained HTML page."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from ... import __version__
from ...analysis.answers.investigate import InvestigationResult
from ...columns import aligned, widths_of
from ...names import shown
from ..common import page
from ..common.words import period
from . import figures
from .phrases import examined_words, title_words
from .summary import headline, other_tails_words, sent_by_canary, summary, verdict_words, who_and_when
from .timeline import over_time
from .words import Section, sections

SCRIPTS = ("common/fit.js", "common/touches.js", "common/recolour.js", "common/unpack.js", "investigation/page.js")
SPECIAL = re.compile(r"[|\[\]<>*\\]")  # of Markdown
UNIT = re.compile(r"(?<=\d) (?=%|(?:[nµm]?s|min|[kMGT]?B|[kMGT]?b/s)\b)")


def markdown(answer: InvestigationResult) -> str:
    """Returns Markdown for a ticket: the verdict, then every question with its answer."""
    parts = [f"## {title_words(answer)}", _marked_down(summary(answer)), examined_words(answer)]
    for section in sections(answer):
        parts.append(f"### {section.question}")
        parts.extend(map(_marked_down, section.sentences))
        if section.rows:
            lines = [section.head, ["---"] * len(section.head), *section.rows]
            parts.append("\n".join("| " + " | ".join(map(_marked_down, line)) + " |" for line in lines))
    return "\n\n".join(parts) + f"\n\nmburst {__version__}\n"


def _marked_down(text: str) -> str:
    """Returns TEXT in Markdown, with `commands` as such; no name becomes a link, an image, a tag or a cell."""
    return SPECIAL.sub(r"\\\g<0>", shown(text))


def plain(answer: InvestigationResult) -> str:
    """Returns text for a terminal: the verdict, then every question with its answer, tables aligned."""
    lines = [shown(summary(answer)), examined_words(answer)]
    for section in sections(answer):
        lines += ["", section.question.upper(), *map(shown, section.sentences)]
        if section.rows:
            table = [list(map(shown, row)) for row in (section.head, *section.rows)]
            widths, right = widths_of(table), [False] * len(section.head)
            lines += ["  " + aligned(row, widths, right) for row in table]
    return "\n".join(lines) + "\n"


def unbroken(text: str) -> str:
    """Returns a sentence without line breaks between a number and its unit."""
    return UNIT.sub("\N{NO-BREAK SPACE}", text)


def _section(section: Section, figures: list[tuple[int, figures.Figure]]) -> dict[str, Any]:
    """Returns a question for the template; FIGURES are its figures with their numbers."""
    return {
        "question": section.question,
        "sentences": list(map(unbroken, section.sentences)),
        "head": section.head,
        "rows": [list(map(unbroken, row)) for row in section.rows],
        "figures": figures,
    }


def all_figures(answer: InvestigationResult) -> dict[str, figures.Figure]:
    """Returns all figures by name, in the order of the page; the first one is at its top."""
    if not answer.findings:
        return {}
    finding = answer.findings[0]
    found = {
        "over_time": over_time(finding, answer.origin_ns), "distribution": figures.distribution(answer),
        "card": figures.card(finding), "aligned": figures.aligned(answer, finding),
        "lag_scan": figures.lag_scan(finding), "fan_in": figures.fan_in(answer), "remedies": figures.remedies(answer),
    }  # fmt: skip
    return {name: figure for name, figure in found.items() if figure is not None}


def render(answer: InvestigationResult) -> str:
    """Returns one HTML page that makes no network request. The same answer gives the same bytes."""
    drawn = list(all_figures(answer).values())
    places: dict[str, list[tuple[int, figures.Figure]]] = {}
    for number, figure in enumerate(drawn[1:], 1):
        places.setdefault(figure.question, []).append((number, figure))
    return page.render(
        "investigation/page.html",
        **page.figures(SCRIPTS, {"figures": [figure.drawing for figure in drawn]}),
        css=page.style("common/page.css", "investigation/page.css"),
        title=title_words(answer),
        cause=answer.cause,
        period=period(*answer.span),
        verdict=[unbroken(text) for text in (verdict_words(answer), *other_tails_words(answer))],
        tiles=headline(answer),
        picture=drawn[0].title if drawn else "",
        who=[unbroken(text) for text in (*who_and_when(answer), *sent_by_canary(answer))],
        sections=[_section(section, places.get(section.question, [])) for section in sections(answer)],
    )


def write_page(answer: InvestigationResult, path: Path) -> None:
    """Write the page atomically. Raises MburstError if it cannot be written."""
    page.write(path, render(answer), "name another file with -o")
