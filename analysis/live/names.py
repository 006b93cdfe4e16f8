"""The names of senders in a live view, kept up to date with `mburst names`."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from ...sql import StoreFolder, segments

if TYPE_CHECKING:
    import pyarrow as pa

LOOK_S = 5.0  # between checks for new files of names


class LiveNames:
    """The rows of the view `names` of a store."""

    def __init__(self, store: StoreFolder) -> None:
        self._store = store
        self._looked = -LOOK_S
        self._files: object = None
        self._rows: pa.Table | None = None

    def rows(self) -> pa.Table | None:
        """Returns the newest rows; None if there are none. Raises MburstError if the store cannot be read."""
        if time.monotonic() - self._looked >= LOOK_S:
            self._looked = time.monotonic()
            files = segments.snapshot(self._store.path, "names", segments.FileSelection()).signature()
            if files != self._files:
                self._rows, self._files = self._read(), files
        return self._rows

    def _read(self) -> pa.Table | None:
        if self._store.is_empty("names"):
            return None
        with self._store.connect(since_ns=time.time_ns()) as con:  # all names, few files of other tables
            return con.sql("FROM names").to_arrow_table()
