"""A cache of a store's own receipts at a target, so that they need not be read each time.

The target is authoritative: a note on a receipt holds only while the target has that receipt. If the ledger is lost,
damaged or of another target, the receipts are read and the files are compared again."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path

from .. import files
from ..sql import disk
from ..sql.format.filenames import SHIPPED
from ..sql.shipped import ledger_text, read_ledger

WHOLE = "whole"  # among the keys of a receipt: none was forgotten
RESTATES = "restates "  # begins what is among the keys of a receipt for each removed one that it restates


class ShipLedger:
    """The ledger of the store at STORE for the target TARGET. It maps each receipt to the keys of its files, once each
    of these files that the store has was found at the target with equal content; if all rows are shipped, also the keys
    of the receipts that it names, and WHOLE. `is_new`: nothing was ever shipped there."""

    def __init__(self, store: Path, target: str) -> None:
        name = hashlib.sha256(target.encode(errors="surrogateescape")).hexdigest()[:16]
        self.path = store / SHIPPED / f"{name}.json"
        self.is_new = not self.path.exists()
        self.receipts: dict[str, set[str]] = read_ledger(self.path)

    def add(self, receipt: str, keys: Collection[str]) -> None:
        """Note that the files KEYS of a receipt have arrived."""
        self.receipts[receipt] = set(keys)

    def keep(self, receipts: Collection[str], keys: Collection[str], below: str) -> dict[str, set[str]]:
        """Forget files that are not among KEYS, of the receipts below the prefix BELOW, and WHOLE of those that had
        them. Returns those of these receipts that are not among RECEIPTS."""
        below_it = {name: noted for name, noted in self.receipts.items() if name.startswith(below)}
        known = {*keys, *receipts, *below_it}.union(*map(restated_by, below_it.values()))
        for noted in below_it.values():
            if gone := {key for key in noted - known - {WHOLE} if not key.startswith(RESTATES)}:
                noted -= {WHOLE, *gone}
        return {name: noted for name, noted in below_it.items() if name not in receipts}

    def forget(self, receipts: Collection[str]) -> None:
        """Forget receipts."""
        for name in receipts:
            del self.receipts[name]

    def write(self) -> None:
        """Write the ledger. If that fails, more is compared the next time."""
        with suppress(OSError):
            disk.make_folder(self.path.parent, self.path.parents[1])
            folder = os.open(self.path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                files.put(folder, self.path.name, ledger_text(self.receipts).encode(), files.GROUP)
            finally:
                os.close(folder)


def restated_by(noted: Collection[str]) -> set[str]:
    """Returns the receipts that one restates, by its keys in the ledger."""
    return {key.removeprefix(RESTATES) for key in noted if key.startswith(RESTATES)}
