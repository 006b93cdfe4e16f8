"""Delivery to a folder, for example one that a web server publishes: all users may read what is made there. Copying
again changes nothing."""

from __future__ import annotations

from pathlib import Path

from .... import files
from ....dashboards.rack import page
from ..digest import Digest
from ..kind import Begin, Delivery, Kind, SettingKey
from ..values import folder_path


def send(digest: Digest, to: Delivery, begin: Begin) -> None:
    """Copy pages and facts, remove copies that are not kept, and write the index of the folder. Raises MburstError if
    it cannot be written."""
    folder = Path(to.settings["path"])
    for entry in digest.entries:
        for path in (*entry.more, entry.facts, entry.page):
            content = files.read_own(path).decode("utf-8", "replace")
            copy = folder / path.relative_to(digest.folder)
            files.write(copy, content, "the copy", "name another path", files.PUBLIC)
    if digest.kept:
        digest.kept.remove_older(folder)
    page.write_index(folder, list(digest.troubles), files.PUBLIC)


KIND = Kind(
    "folder",
    "the pages, their JSON and an index, for a web server to publish",
    (SettingKey("path", "the folder", folder_path, needed=True, folder=True),),
    send,
)
