"""The named queries: queries/NAME.sql, one question a file, whose first comment is its documentation."""

from __future__ import annotations

import re
from pathlib import Path

from ..errors import UsageError

FOLDER = Path(__file__).parent / "queries"
_INCLUDED = re.compile(r"^-- include: (\w+)$", re.MULTILINE)


def names() -> list[str]:
    """The names of all named queries, sorted."""
    return sorted(path.stem for path in FOLDER.glob("*.sql"))


def text(name: str, alone: bool = False) -> str:
    """The SQL of the named query, which may be several statements; the last one answers. Unless ALONE, behind the query
    that it includes, whose tables it asks. Raises UsageError."""
    if name not in names():
        raise UsageError(f"no query named {name!r}", f"there are {', '.join(names())}")
    own = (FOLDER / f"{name}.sql").read_text(encoding="utf-8")
    included = None if alone else _INCLUDED.search(own)
    return f"{text(included[1])}\n{own}" if included else own


def about(name: str) -> str:
    """The first sentence of the query's documentation."""
    lines = []
    for line in text(name, alone=True).splitlines():
        if not line.startswith("--"):
            break
        lines.append(line.removeprefix("--").strip())
    return " ".join(lines).split(". ")[0].rstrip(".:") + "."
