"""Inventories: CSV files that list the hosts of a fleet."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any, NamedTuple

from ..errors import MburstError, UsageError
from ..telemetry.naming.rows import canonical


class HostOf(NamedTuple):
    """A host of a rack, with its service and address, if they are known."""

    rack: str
    host: str
    service: str = ""
    address: str = ""


def read_inventory(path: Path) -> set[HostOf]:
    """Returns the hosts in a CSV file. It has the columns rack and host, optionally service and address, and may have
    others. Raises MburstError, and UsageError."""
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            rows = csv.DictReader(file)
            if not {"rack", "host"} <= set(rows.fieldnames or ()):
                raise UsageError(f"{path}: no columns rack and host", "the first line of the file names its columns")
            if twice := next((name for name in HostOf._fields if (rows.fieldnames or []).count(name) > 1), None):
                raise UsageError(f"{path}: two columns {twice}", "leave one of them out")
            found = {_listed(row, f"{path}:{rows.line_num}") for row in rows if any(filter(None, row.values()))}
    except OSError as error:
        raise MburstError(f"{path}: cannot read: {error.strerror}") from error
    except (UnicodeDecodeError, csv.Error) as error:
        raise MburstError(f"{path}: not a CSV file in UTF-8") from error
    once: set[tuple[str, str]] = set()
    for of in sorted(found):
        if of[:2] in once:
            raise UsageError(f"{path}: host {of.host} of rack {of.rack} has two services or addresses", "list it once")
        once.add(of[:2])
    return found


def _listed(row: dict[str | Any, str | Any], where: str) -> HostOf:
    """Returns the host in a line of an inventory; the key None has cells without a column. Raises UsageError."""
    if None in row:
        raise UsageError(f"{where}: more cells than columns", "put quotes around text with commas")
    rack, host, service, address = ((row.get(name) or "").strip() for name in HostOf._fields)
    if not (rack and host):
        raise UsageError(f"{where}: no rack or no host", "give both, or remove the line")
    return HostOf(rack, host, service, address and _stored(address, where))


def _stored(address: str, where: str) -> str:
    """Returns an address of a host as the store has those of senders. Raises UsageError."""
    try:
        known = canonical(address)
        if "/" not in known:
            return known
    except UsageError:
        pass
    raise UsageError(f"{where}: invalid address {address!r}", "examples: 10.1.7.3, 2001:db8::1, 02:00:00:00:00:01")
