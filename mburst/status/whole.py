"""The whole status of a store or of a mburst.toml: what `mburst status` and `mburst metrics` report."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import MburstError

if TYPE_CHECKING:
    from .parts import PartsStatus
    from .reports import ReportStatus
    from .shipping import ShippingStatus
    from .store import StoreStatus


@dataclass(frozen=True)
class Status:
    """The status of everything that could be read. `errors` says what could not be read, and why, one line each."""

    stores: list[StoreStatus] = field(default_factory=list)
    parts: PartsStatus | None = None
    reports: list[ReportStatus] = field(default_factory=list)
    ships: list[ShippingStatus] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)

    def unwell(self) -> list[str]:
        """Returns the problems, one sentence each."""
        looked: list[Any] = [*([self.parts] if self.parts else []), *self.stores, *self.reports, *self.ships]
        return [*self.errors, *(sentence for one in looked for sentence in one.unwell())]

    def to_dict(self) -> dict[str, Any]:
        """The object that `mburst status --json` prints."""
        unwell = self.unwell()
        return {
            "well": not unwell,
            "unwell": unwell,
            "run": self.parts and self.parts.facts(),
            "stores": [store.facts() for store in self.stores],
            "reports": [vars(report) for report in self.reports],
            "ships": [vars(part) for part in self.ships],
        }

    def store(self, path: Path) -> StoreStatus | None:
        """Returns the status of the store at PATH, None if it was not read."""
        return next((one for one in self.stores if os.path.realpath(one.store) == os.path.realpath(path)), None)

    @contextmanager
    def looking(self) -> Iterator[None]:
        """Add an MburstError in the context to `errors`, and continue."""
        try:
            yield
        except MburstError as error:
            line = f"{error} ({error.hint})" if error.hint else str(error)
            if line not in self.errors:
                self.errors.append(line)


def of_store(path: Path) -> Status:
    """Returns the status of one store. Raises MburstError if it cannot be read."""
    from ..sql import StoreFolder
    from . import store

    return Status([store.read(StoreFolder.open(path))])


def of_config(file: Path) -> Status:
    """Returns the status of all that the mburst.toml at FILE names. Raises MburstError if that file cannot be read."""
    from ..agent.config import load
    from ..sql import StoreFolder
    from . import parts, reports, shipping, store

    config = load(file, fill=False)
    found = Status(parts=parts.read(config))
    sizes = {os.path.realpath(name): size for name, size in config.store_sizes.items()}
    for path, name in {os.path.realpath(name): name for name in config.stores}.items():
        with found.looking():
            found.stores.append(store.read(StoreFolder.open(name), size_limit=sizes.get(path)))
    for report in config.reports:
        with found.looking():
            found.reports.append(reports.read(config, report))
    for part in shipping.parts_of(config):
        with found.looking():
            found.ships.append(shipping.read(part))
    return found
