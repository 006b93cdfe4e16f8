"""The reserve: disk space that a recorder leaves free. Below it senders are summed up, while bins continue in less
space."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from ...errors import MburstError
from ...units import format_bytes, format_count

if TYPE_CHECKING:
    import pyarrow as pa

LOOK_S = 1.0
MOST_BYTES, SHARE = 10**9, 0.05  # the default: this many bytes, or this share of the disk if that is less
ENOUGH = 1.25  # multiple of the reserve from which senders are stored again
HOT_SHARE = 0.1  # share of the reserve that a log may take below it; sealed, rows need a tenth of that or less
OTHER = "other"
_BIN = ["recording_id", "host", "rack", "interface", "direction", "clock_epoch", "ts_ns"]
_SUMS = ("bytes", "packets", "flows", "members", "cnp_packets")


class DiskReserve:
    """Watches the reserve of the file system of STORE. A LEAST_BYTES of None selects the default. SAY is called when
    senders begin to be summed up, and when that ends."""

    def __init__(self, store: Path, least_bytes: int | None, say: Callable[[MburstError], None]) -> None:
        self._store = store
        self._least_bytes = default_reserve(store) if least_bytes is None else least_bytes
        self._say = say
        self._due = 0.0
        self._is_low = False
        self.left_out = 0  # senders that were summed up in total

    @property
    def most_hot_bytes(self) -> float:
        """The size of a log from which it is sealed."""
        return HOT_SHARE * self._least_bytes if self._is_low else math.inf

    def within(self, senders: pa.RecordBatch) -> pa.RecordBatch | pa.Table:
        """Returns SENDERS (rows of `sources`), summed up if the disk is short of space."""
        if self._least_bytes and time.monotonic() >= self._due:
            self._due = time.monotonic() + LOOK_S
            self._look()
        if not self._is_low:
            return senders
        summed = summed_up(senders)
        self.left_out += senders.num_rows - summed.num_rows
        return summed

    def _look(self) -> None:
        found = os.statvfs(self._store)
        free = found.f_bavail * found.f_frsize
        if not self._is_low and free < self._least_bytes:
            self._is_low = True
            least = format_bytes(self._least_bytes)
            self._say(
                MburstError(
                    f"{self._store}: less than {least} of the disk are free (--reserve): senders are summed up as "
                    "`other`, bins go on",
                    "free some space, or keep less: `mburst compact --help`",
                )
            )
        elif self._is_low and free >= ENOUGH * self._least_bytes:
            self._is_low = False
            self._say(MburstError(f"{self._store}: there is room on the disk: senders are stored again"))

    def notes(self) -> list[str]:
        """Returns what was left out, for the notes of the recording."""
        return [f"{format_count(self.left_out, 'row')} of senders summed up for lack of disk"] if self.left_out else []


def default_reserve(store: Path) -> int:
    """Returns the reserve that applies without --reserve."""
    found = os.statvfs(store)
    return min(MOST_BYTES, int(SHARE * found.f_blocks * found.f_frsize))


def summed_up(senders: pa.RecordBatch) -> pa.Table:
    """Returns one row `other` for the senders of each bin, with the sums of their bytes, packets, flows and members."""
    import pyarrow as pa

    table = pa.Table.from_batches([senders])
    texts = [name for name in _BIN if pa.types.is_dictionary(table.schema.field(name).type)]
    plain = table
    for name in texts:
        plain = plain.set_column(plain.schema.get_field_index(name), name, plain.column(name).cast(pa.string()))
    sums = [(name, "sum") for name in _SUMS if name in plain.schema.names]
    grouped = plain.group_by(_BIN, use_threads=False).aggregate([*sums, ("first_ns", "min"), ("last_ns", "max")])
    columns = {name: grouped.column(name) for name in _BIN}
    columns["source"] = pa.chunked_array([pa.repeat(OTHER, grouped.num_rows)])
    for name, _ in sums:
        columns[name] = grouped.column(f"{name}_sum").cast(plain.schema.field(name).type)
    columns["first_ns"], columns["last_ns"] = grouped.column("first_ns_min"), grouped.column("last_ns_max")
    return pa.table(columns)
