"""Parts of a page as data; templates/common/macros.html draws them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class BarCell:
    """A cell with a bar of PERCENT of its width."""

    percent: float


@dataclass(frozen=True)
class LinkCell:
    """A cell with a link, and a sign that shows WARNING, where there is one."""

    text: str
    href: str
    warning: str = ""


@dataclass(frozen=True)
class PageTable:
    """A table whose first TEXTS columns are text and the rest numbers."""

    caption: str
    heads: Sequence[str]
    rows: Sequence[Sequence[str | BarCell | LinkCell]]
    texts: int = 1


@dataclass(frozen=True)
class Paragraph:
    """A paragraph; a quiet one says what is of less weight."""

    text: str
    quiet: bool = False
