"""Delivery to a folder, such as one that a web server publishes. Copying again changes nothing."""

from __future__ import annotations

from pathlib import Path

from ...dashboards import rack as page
from ..config import Delivery
from .digest import Digest


def send(digest: Digest, to: Delivery) -> None:
    """Copy pages and facts, and write the folder's own index. Raises MburstError where it cannot be written."""
    folder = Path(to.settings["path"])
    for entry in digest.entries:
        for path in (entry.facts, entry.page):
            page.put(folder / path.name, path.read_text(encoding="utf-8"))
    page.write_index(folder, list(digest.troubles))
