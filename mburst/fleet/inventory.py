"""Inventories: CSV files that list the hosts of a fleet, and from when until when each is one of its rack."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ..errors import MburstError, UsageError
from ..telemetry.naming.rows import canonical
from ..units import NS_PER_MINUTE, format_time, parse_span

STOPPING_NS = 20 * NS_PER_MINUTE  # longest time after its `until` to which the measurements of a removed host may reach


class HostOf(NamedTuple):
    """A host of a rack, with its service and address, if they are known. It is expected to ship measurements of the
    times from `added_ns` on and before `removed_ns` (Unix nanoseconds; None: no limit)."""

    rack: str
    host: str
    service: str = ""
    address: str = ""
    added_ns: int | None = None
    removed_ns: int | None = None

    def is_expected(self, since_ns: int, until_ns: int) -> bool:
        """Whether measurements of any time from SINCE_NS on and before UNTIL_NS are expected."""
        return (self.added_ns is None or self.added_ns < until_ns) and (
            self.removed_ns is None or self.removed_ns > since_ns
        )

    def doubt(self, shipped_ns: int | None) -> str:
        """Why the host counts as one without an `until`, or '': it has shipped measurements of later times, before
        SHIPPED_NS (None: of no time)."""
        if self.removed_ns is None or shipped_ns is None or shipped_ns <= self.removed_ns + STOPPING_NS:
            return ""
        return (
            f"host {self.host} of rack {self.rack} has shipped measurements until {format_time(shipped_ns)}, after its "
            f"`until` in the inventory, {format_time(self.removed_ns)}: it still counts as expected"
        )


_COLUMNS = ("rack", "host", "service", "address", "from", "until")


def read_inventory(path: Path | None) -> set[HostOf]:
    """Returns the hosts in a CSV file (None: no hosts). It has the columns rack and host, optionally service, address,
    from and until, and may have others, unless their names resemble one that it lacks. Raises MburstError, and
    UsageError."""
    if path is None:
        return set()
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            rows = csv.DictReader(file)
            rows.fieldnames = [name.strip() for name in rows.fieldnames or ()]
            for name, known in _mistyped(rows.fieldnames):
                raise UsageError(f"{path}: unknown column {name!r}", f"call it {known!r}, or something else")
            if not {"rack", "host"} <= {*rows.fieldnames}:
                raise UsageError(f"{path}: no columns rack and host", "the first line of the file names its columns")
            if twice := next((name for name in _COLUMNS if rows.fieldnames.count(name) > 1), None):
                raise UsageError(f"{path}: two columns {twice}", "leave one of them out")
            found = {_listed(row, f"{path}:{rows.line_num}") for row in rows if any(filter(None, row.values()))}
    except OSError as error:
        raise MburstError(f"{path}: cannot read: {error.strerror}") from error
    except (UnicodeDecodeError, csv.Error) as error:
        raise MburstError(f"{path}: not a CSV file in UTF-8") from error
    once: set[tuple[str, str]] = set()
    for of in sorted(found, key=lambda of: of[:2]):
        if of[:2] in once:
            raise UsageError(f"{path}: host {of.host} of rack {of.rack} has two lines that differ", "list it once")
        once.add(of[:2])
    return found


def _mistyped(names: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yields those of NAMES that resemble a known one that is not there, and that one."""
    absent = [known for known in _COLUMNS if known not in names]
    yield from ((name, known) for name in names if name not in _COLUMNS for known in absent if _resembles(name, known))


def _resembles(name: str, known: str) -> bool:
    """Whether NAME is KNOWN but for case, spaces and marks, and one letter or two letters that changed places."""
    rest, other = re.sub(r"[\W_]", "", name.lower()), known
    for _ in range(2):  # without what they begin with, then without what they end with
        pairs = enumerate(zip(rest, other, strict=False))
        same = next((place for place, (one, two) in pairs if one != two), min(len(rest), len(other)))
        rest, other = rest[same:][::-1], other[same:][::-1]
    return max(len(rest), len(other)) < 2 or (len(rest) == 2 and rest == other[::-1])


def _listed(row: dict[str | Any, str | Any], where: str) -> HostOf:
    """Returns the host in a line of an inventory; the key None has cells without a column. Raises UsageError."""
    if None in row:
        raise UsageError(f"{where}: more cells than columns", "put quotes around text with commas")
    rack, host, service, address, begin, end = ((row.get(name) or "").strip() for name in _COLUMNS)
    if not (rack and host):
        raise UsageError(f"{where}: no rack or no host", "give both, or remove the line")
    try:
        times = parse_span(begin, end)
    except UsageError as error:
        raise UsageError(f"{where}: {error}", error.hint) from None
    return HostOf(rack, host, service, address and _stored(address, where), *times)


def _stored(address: str, where: str) -> str:
    """Returns an address of a host as the store has those of senders. Raises UsageError."""
    try:
        known = canonical(address)
        if "/" not in known:
            return known
    except UsageError:
        pass
    raise UsageError(f"{where}: invalid address {address!r}", "examples: 10.1.7.3, 2001:db8::1, 02:00:00:00:00:01")
