"""An investigation for a terminal, as Markdown for a ticket, and as one self-contained HTML page."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from pathlib import Path
from string import Template

from ... import __version__, files
from ...analysis.answers.investigate import Investigation
from ...names import escape, shown
from ..common import palette
from ..common.packing import compress
from . import figures as investigation_figures
from .phrases import CAUSES
from .summary import summary
from .words import Section, sections

_HERE = Path(__file__).parents[1]
COMMAND = re.compile(r"`((?:mburst |--)[^`]*)`")
SPECIAL = re.compile(r"[|\[\]<>*\\]")  # of Markdown
UNIT = re.compile(r"(?<=\d) (?=%|(?:[nµm]?s|min|[kMGT]?B|[kMGT]?b/s)\b)")


def markdown(answer: Investigation) -> str:
    """For a ticket: the verdict, then every question with its answer."""
    parts = [f"## {CAUSES[answer.cause]}", _marked_down(summary(answer))]
    for section in sections(answer):
        parts.append(f"### {section.question}")
        parts.extend(map(_marked_down, section.sentences))
        if section.rows:
            lines = [section.head, ["---"] * len(section.head), *section.rows]
            parts.append("\n".join("| " + " | ".join(map(_marked_down, line)) + " |" for line in lines))
    return "\n\n".join(parts) + f"\n\nmburst {__version__}\n"


def _marked_down(text: str) -> str:
    """TEXT in Markdown, with `commands` as such: no name makes a link, a picture, a tag or a cell."""
    return SPECIAL.sub(r"\\\g<0>", shown(text))


def plain(answer: Investigation) -> str:
    """For a terminal: the verdict, then every question with its answer, tables aligned."""
    lines = [shown(summary(answer))]
    for section in sections(answer):
        lines += ["", section.question.upper(), *map(shown, section.sentences)]
        if section.rows:
            table = [list(map(shown, row)) for row in (section.head, *section.rows)]
            widths = [max(len(row[k]) for row in table) for k in range(len(section.head))]
            lines += [
                "  " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
                for row in table
            ]
    return "\n".join(lines) + "\n"


def html(text: str) -> str:
    """A sentence, with `commands` as such, and no line break between a number and its unit."""
    return COMMAND.sub(r"<code>\1</code>", UNIT.sub("\N{NO-BREAK SPACE}", escape(text)))


def section_html(number: int, section: Section, figures: str) -> str:
    """A question as a section; `figures` are places that the script fills."""
    said = "".join(f"<p>{html(sentence)}</p>" for sentence in section.sentences)
    table = ""
    if section.rows:
        head = "".join(f'<th scope="col">{escape(cell)}</th>' for cell in section.head)
        body = "".join("<tr>" + "".join(f"<td>{html(cell)}</td>" for cell in row) + "</tr>" for row in section.rows)
        table = (
            f'<div class="scroll" tabindex="0"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'
        )
    return (
        f'<section aria-labelledby="q{number}"><h3 id="q{number}">{escape(section.question)}</h3>'
        f'<div class="answer">{said}</div>{table}{figures}</section>'
    )


def page(answer: Investigation) -> str:
    """One HTML page that asks the network for nothing. The same answer gives the same bytes."""
    from plotly.offline import get_plotlyjs

    figures = list(investigation_figures.all_figures(answer).values())
    places = {question: "" for question in {figure.question for figure in figures}}
    for k, figure in enumerate(figures):
        places[figure.question] += (
            f'<figure><div class="plot" data-figure="{k}" role="img" aria-label="{escape(figure.title)}">'
            f"</div><figcaption>{escape(figure.title)}</figcaption></figure>"
        )
    content = json.dumps(
        {"figures": [figure.drawing for figure in figures], "light": palette.LIGHT, "dark": palette.DARK},
        ensure_ascii=False,
        sort_keys=True,
        separators=(",", ":"),
        allow_nan=False,
    )
    script = "\n".join(
        (_HERE / "static" / name).read_text(encoding="utf-8") for name in ("common/unpack.js", "investigation/page.js")
    )
    script = f'"use strict";\n(() => {{\n{script}\n}})();'
    plotly = get_plotlyjs()
    hashes = " ".join(
        f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'" for text in (script, plotly)
    )
    css = palette.css() + (_HERE / "static" / "common/page.css").read_text(encoding="utf-8")
    css += (_HERE / "static" / "investigation/page.css").read_text(encoding="utf-8")
    return Template((_HERE / "templates" / "investigation/page.html").read_text(encoding="utf-8")).substitute(
        title=escape(CAUSES[answer.cause]),
        cause=escape(answer.cause),
        summary=html(summary(answer)),
        css=css,
        policy=f"default-src 'none'; script-src {hashes}; style-src 'unsafe-inline'; img-src data:; base-uri 'none'",
        sections="".join(section_html(k, s, places.get(s.question, "")) for k, s in enumerate(sections(answer))),
        facts=compress(content.encode()),
        plotly=compress(plotly.encode()),
        script=script,
        version=escape(__version__),
    )


def write_page(answer: Investigation, path: Path) -> None:
    """Write the page whole or not at all. Raises MburstError where it cannot be written."""
    files.write(path, page(answer), "the page", "name another file with -o")
