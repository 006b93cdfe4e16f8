"""Parts of a page as data; templates/common/macros.html draws them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class BarCell:
    """A cell with a bar, PERCENT of its width long."""

    percent: float


@dataclass(frozen=True)
class LinkCell:
    """A cell with a link, and a warning sign with the text WARNING if there is one."""

    text: str
    href: str
    warning: str = ""


@dataclass(frozen=True)
class PageTable:
    """A table. Its first TEXTS columns are text, the others numbers."""

    caption: str
    heads: Sequence[str]
    rows: Sequence[Sequence[str | BarCell | LinkCell]]
    texts: int = 1


@dataclass(frozen=True)
class Paragraph:
    """A paragraph; QUIET for text of less importance."""

    text: str
    quiet: bool = False
