"""The names of a store that a live view names senders by, kept up with what `mburst names` adds."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from ...sql import StoreFolder, segments

if TYPE_CHECKING:
    import pyarrow as pa

LOOK_S = 5.0  # between looks at the names of files


class LiveNames:
    """The rows of the view `names` of a store."""

    def __init__(self, store: StoreFolder) -> None:
        self._store = store
        self._looked = -LOOK_S
        self._files: object = None
        self._rows: pa.Table | None = None

    def rows(self) -> pa.Table | None:
        """The newest; None where there are none. Raises MburstError where the store cannot be read."""
        if time.monotonic() - self._looked >= LOOK_S:
            self._looked = time.monotonic()
            files = segments.snapshot(self._store.path, "names", segments.FileSelection()).signature()
            if files != self._files:
                self._rows, self._files = self._read(), files
        return self._rows

    def _read(self) -> pa.Table | None:
        if self._store.is_empty("names"):
            return None
        with self._store.connect(since_ns=time.time_ns()) as con:  # names hold whenever they came: of others, few files
            return con.sql("FROM names").to_arrow_table()
