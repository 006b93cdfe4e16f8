"""The fullest windows of each second of bins, without the GIL. fullest.h says how."""

from typing_extensions import Buffer

def fullest(ts_ns: Buffer, amounts: Buffer, widths_ns: Buffer, /) -> bytes:
    """Of bins in order of time (all arguments hold int64): for each second that has one, in order, and for each of
    WIDTHS_NS, the most that the AMOUNTS in a window of that width add up to, as int64. Each width divides the next,
    and the last divides a second. Raises ValueError for other arguments."""
