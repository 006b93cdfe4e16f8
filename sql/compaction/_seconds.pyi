"""What a compaction needs of bins, in one pass over them, without the GIL. seconds.h says how."""

from typing import Any, final

from numpy.typing import NDArray

Column = NDArray[Any]  # or anything else that is one buffer and has a length

FIELDS: tuple[str, ...]
"""The numbers of a second, in order; behind them, of each counter, its sum and how many bins have a value."""

@final
class Seconds:
    """The bins of a recording's clock epoch."""

    def __new__(
        cls, bits: list[bool], losing: int, full_bytes: int, full_gap_ns: int, widths: list[tuple[int, int, int]], /
    ) -> Seconds:
        """BITS: of each counter, at most 16, whether its values are joined by `or`, or else added up. LOSING: bits of
        quality that mean that packets were lost. Bins of FULL_BYTES wire bytes are full; an island of them has no gap
        above FULL_GAP_NS. WIDTHS: at most 8, milliseconds that divide a second, and the bytes and the gap of windows
        of that width; those of seconds without a full bin are not looked at. Raises ValueError for other arguments."""

    def add(
        self,
        ts_ns: Column,
        bytes: Column,
        wire_bytes: Column,
        packets: Column,
        quality: Column,
        counters: list[tuple[Column, Column | None]],
        /,
    ) -> bool:
        """Add bins: columns of int64, packets of uint32, quality of uint16; of each counter its values, int64 and 0
        where NULL, and a byte each that is 0 where NULL (None: there is no NULL). False where one is of a second before
        the last two that bins came of: nothing more can be had of this object. Raises ValueError, MemoryError."""

    def end(self) -> tuple[bytes, bytes, list[bytes]]:
        """Of int64: the seconds with a bin, in order (FIELDS and counters); the islands of full bins, first and last
        start each; and of each width those of full windows. Islands are in order where bins were."""
