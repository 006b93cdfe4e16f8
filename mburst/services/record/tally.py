"""Running totals of the bins that were appended: they agree with a recording's bins at every moment."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

    from ...sql.repair.recovery import Totals


class BinTally:
    """Sums up rows of bins. `totals` has the sums so far, by recording_id."""

    def __init__(self) -> None:
        self.totals: dict[str, Totals] = {}

    def add(self, bins: pa.RecordBatch) -> None:
        """Add rows whose recording_id is dictionary-encoded."""
        import numpy as np

        names = bins.column("recording_id")
        codes = names.indices.to_numpy()
        columns = {
            name: bins.column(name).to_numpy() for name in ("ts_ns", "packets", "bytes", "wire_bytes", "quality")
        }
        for code in np.bincount(codes).nonzero()[0]:
            chosen = {name: column[codes == code] for name, column in columns.items()}
            self._add(names.dictionary[int(code)].as_py(), chosen)

    def _add(self, recording_id: str, columns: dict[str, np.ndarray]) -> None:
        import numpy as np

        from ...sql.repair.recovery import Totals

        times = columns["ts_ns"]
        first, last, quality = int(times.min()), int(times.max()), int(np.bitwise_or.reduce(columns["quality"]))
        packets, octets, wire = (int(columns[name].sum(dtype=np.int64)) for name in ("packets", "bytes", "wire_bytes"))
        if before := self.totals.get(recording_id):
            first, last, quality = min(first, before.first_ns), max(last, before.last_ns), quality | before.quality
            packets, octets, wire = packets + before.packets, octets + before.bytes, wire + before.wire_bytes
        self.totals[recording_id] = Totals(first, last, packets, octets, wire, quality)
