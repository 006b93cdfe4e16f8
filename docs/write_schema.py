"""Writes the views of docs/schema.md from sql/model/*.sql: make docs. tests/house/test_docs.py compares them."""

from __future__ import annotations

from pathlib import Path

from mburst.sql import described
from mburst.sql.described import DescribedColumn
from mburst.sql.tables import MODEL, model_sql

PAGE = Path(__file__).parent / "schema.md"
BEGIN, END = "<!-- views: `make docs` writes them from sql/model -->\n", "<!-- end of the views -->\n"


def columns(view: str) -> list[DescribedColumn]:
    """Name, type and meaning of each column, from the comments behind them."""
    return described.columns(model_sql(view))


def section(view: str) -> str:
    """A view: what the first comment says, and a table of the columns."""
    about = []
    for line in model_sql(view).splitlines():
        if not line.startswith("-- "):
            break
        about.append(line.removeprefix("-- "))
    rows = [f"| {name} | {kind} | {meaning} |" for name, kind, meaning in columns(view)]
    return "\n".join([f"## {view}", "", *about, "", "| column | type | |", "|---|---|---|", *rows, ""])


def written(page: str) -> str:
    """The page with the views as sql/model has them."""
    before, rest = page.split(BEGIN)
    return before + BEGIN + "\n" + "\n".join(section(view) for view in MODEL) + "\n" + END + rest.split(END)[1]


if __name__ == "__main__":
    PAGE.write_text(written(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
