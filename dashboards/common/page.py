"""Pages: templates (templates/), the files they embed (static/), and the only way to write a page to disk.

Templates escape every value, and make characters visible that a browser would obey or hide (names.shown). Only text of
this package's own files is inserted as it is: styles and scripts.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ... import __version__, files
from ...names import shown
from . import palette, plotlyjs
from .packing import gzipped, text_of

if TYPE_CHECKING:
    from jinja2 import Environment
    from markupsafe import Markup

_ROOM = Path(__file__).parents[1]
FOLDER = "name another folder with -o"  # the hint if a report cannot be written
ALONE = "form-action 'none'; base-uri 'none'"
_COMMAND = re.compile(r"`((?:mburst |--)[^`]*)`")
WITHOUT_SCRIPT = f"default-src 'none'; style-src 'unsafe-inline'; {ALONE}"


def render(template: str, **values: Any) -> str:
    """Returns a file of templates/ rendered with VALUES. Raises jinja2.UndefinedError if the template needs other
    values."""
    return _environment().get_template(template).render(values, version=__version__)


@cache
def _environment() -> Environment:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(_ROOM / "templates"),
        autoescape=True,
        finalize=_seen,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        auto_reload=False,
    )
    environment.filters["apart"] = _apart
    return environment


def _apart(text: str) -> list[tuple[str, bool]]:
    """Splits a text for people at its `mburst commands` and `--options`: each part, and whether it is one."""
    parts = _COMMAND.split(text)  # parts with an odd index were between backquotes
    return [(part, number % 2 == 1) for number, part in enumerate(parts) if part]


def _seen(value: Any) -> Any:
    """Returns a value of a template before it is escaped."""
    return value if hasattr(value, "__html__") or not isinstance(value, str) else shown(value)


def static(*names: str) -> str:
    """Returns files of static/ as one text."""
    return "\n".join((_ROOM / "static" / name).read_text(encoding="utf-8") for name in names)


def style(*names: str) -> Markup:
    """Returns the palette and style sheets of static/ as one."""
    return _own(palette.css() + static(*names))


def _own(text: str) -> Markup:
    """Marks TEXT, which must come only from files of this package, as safe for a template."""
    from markupsafe import Markup

    return Markup(text)


def figures(scripts: Iterable[str], facts: dict[str, Any], arrays: bytes | None = None) -> dict[str, Any]:
    """Returns the values for templates/common/figures.html: `scripts` of static/ run together, with plotly, on FACTS
    (JSON, with the palettes added) and ARRAYS. The page's policy allows only these scripts, and no request."""
    script = '"use strict";\n(() => {\n' + static(*scripts) + "\n})();"
    own, plotly = _allowed(hashlib.sha256(script.encode()).digest()), plotlyjs.packed()
    text = json.dumps(
        {**facts, "light": palette.LIGHT, "dark": palette.DARK},
        ensure_ascii=False,
        sort_keys=True,
        separators=(",", ":"),
        allow_nan=False,
    )
    return {
        "policy": f"default-src 'none'; script-src {own} {_allowed(plotly.sha256)}; style-src 'unsafe-inline'; "
        f"img-src data:; {ALONE}",
        "blocks": {
            "facts": text_of(gzipped(text.encode())),
            **({} if arrays is None else {"arrays": text_of(gzipped(arrays))}),
            "plotly": text_of(plotly.gzip),
        },
        "script": _own(script),
    }


def _allowed(sha256: bytes) -> str:
    """Returns the entry of a script in a page's policy."""
    return f"'sha256-{text_of(sha256)}'"


def write(path: Path, text: str, hint: str, mode: int = files.GROUP) -> None:
    """Write a page atomically. Raises MburstError with HINT if it cannot be written."""
    files.write(path, text, "the page", hint, mode)


def write_with_facts(base: Path, html: str, facts: str) -> tuple[Path, Path]:
    """Write a report: its facts BASE.json and then its page BASE.html, so that a page never lacks its facts; neither if
    there is no room for both. Returns both paths. Raises MburstError if the folder cannot be written."""
    page, beside = (base.with_name(base.name + suffix) for suffix in (".html", ".json"))
    files.write_together(base.parent, {beside.name: facts, page.name: html}, "the report", FOLDER)
    return page, beside
