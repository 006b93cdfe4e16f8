"""Running totals of the bins that were appended: they agree with a recording's bins at every moment."""

from __future__ import annotations

from operator import itemgetter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

    from ...sql.repair.recovery import Totals


MOST_SILENT = 0.9  # of the time of a capture: a longer silence may be a clock that jumped ahead
LEAST_SILENT_NS = 60_000_000_000


class BinTally:
    """Sums up rows of bins. `totals` has the sums so far, by recording_id; `newest` the clock epoch and the start of
    the newest bin, and `silences` the longest time between two bins of one clock epoch."""

    def __init__(self) -> None:
        self.totals: dict[str, Totals] = {}
        self.newest: dict[str, tuple[int, int]] = {}
        self.silences: dict[str, tuple[int, int]] = {}

    def silence(self) -> tuple[int, int] | None:
        """Returns the time in which no recording has a bin, if it is nearly all of the time from the first bin to the
        last one."""
        if not self.totals:
            return None
        first, last = min(of.first_ns for of in self.totals.values()), max(of.last_ns for of in self.totals.values())
        longest = [
            max((first, of.first_ns), self.silences[name], (of.last_ns, last), key=_length)
            for name, of in self.totals.items()
        ]
        begin, end = max(map(itemgetter(0), longest)), min(map(itemgetter(1), longest))
        return (begin, end) if end - begin > max(MOST_SILENT * (last - first), LEAST_SILENT_NS) else None

    def add(self, bins: pa.RecordBatch) -> None:
        """Add rows whose recording_id is dictionary-encoded."""
        import numpy as np

        names = bins.column("recording_id")
        codes = names.indices.to_numpy()
        columns = {
            name: bins.column(name).to_numpy()
            for name in ("ts_ns", "packets", "bytes", "wire_bytes", "quality", "clock_epoch")
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
        self._find_silence(recording_id, times, columns["clock_epoch"])

    def _find_silence(self, recording_id: str, times: np.ndarray, epochs: np.ndarray) -> None:
        import numpy as np

        epoch, newest = self.newest.get(recording_id, (int(epochs[0]), int(times[0])))
        between = np.diff(times, prepend=newest)
        between[np.diff(epochs.astype(np.int64), prepend=epoch) != 0] = 0
        at = int(between.argmax())
        found = int(times[at] - between[at]), int(times[at])
        self.silences[recording_id] = max(self.silences.get(recording_id, found), found, key=_length)
        self.newest[recording_id] = int(epochs[-1]), int(times[-1])


def _length(span: tuple[int, int]) -> int:
    return span[1] - span[0]
