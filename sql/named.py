"""The named queries: queries/NAME.sql, one question a file, whose first comment is its documentation."""

from __future__ import annotations

from pathlib import Path

from ..errors import UsageError

FOLDER = Path(__file__).parent / "queries"


def names() -> list[str]:
    """The names of all named queries, sorted."""
    return sorted(path.stem for path in FOLDER.glob("*.sql"))


def text(name: str) -> str:
    """The SQL of the named query, which may be several statements; the last one answers. Raises UsageError."""
    if name not in names():
        raise UsageError(f"no query named {name!r}", f"there are {', '.join(names())}")
    return (FOLDER / f"{name}.sql").read_text(encoding="utf-8")


def about(name: str) -> str:
    """The first sentence of the query's documentation."""
    lines = []
    for line in text(name).splitlines():
        if not line.startswith("--"):
            break
        lines.append(line.removeprefix("--").strip())
    return " ".join(lines).split(". ")[0].rstrip(".:") + "."
