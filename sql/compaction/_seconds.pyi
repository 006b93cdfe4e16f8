"""What a compaction needs of bins, in one pass over them, without the GIL. seconds.h has the definitions."""

from typing import Any, final

from numpy.typing import NDArray

Column = NDArray[Any]  # or any other object that is one buffer and has a length

FIELDS: tuple[str, ...]
"""The numbers of a second, in order; after them, for each counter, its sum and how many bins have a value."""

@final
class Seconds:
    """The bins of one clock epoch of a recording."""

    def __new__(
        cls, bits: list[bool], losing: int, full_bytes: int, full_gap_ns: int, widths: list[tuple[int, int, int]], /
    ) -> Seconds:
        """BITS states for each counter, at most 16, whether its values are joined by `or` instead of added up. LOSING
        are the bits of quality that mean that packets were lost. Bins with FULL_BYTES wire bytes are full; an island of
        them has no gap above FULL_GAP_NS. WIDTHS are at most 8 windows: milliseconds that divide a second, bytes from
        which on such a window is full, and gap. Windows in seconds without a full bin are not examined. Raises
        ValueError for other arguments."""

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
        """Add bins: columns of int64, packets of uint32, quality of uint16; for each counter its values, int64 and 0
        for NULL, and one byte each that is 0 for NULL (None: there is no NULL). Returns False if a bin is of a second
        before the last two seconds with bins: then this object is of no more use. Raises ValueError, MemoryError."""

    def end(self) -> tuple[bytes, bytes, list[bytes]]:
        """Returns arrays of int64: the seconds with a bin, in order (FIELDS and counters); the islands of full bins,
        first and last start each; and for each width the islands of full windows. Islands are in order if bins were."""
