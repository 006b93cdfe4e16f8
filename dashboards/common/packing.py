"""Numbers in a page: typed arrays in one compressed block, which the page unpacks without a request."""

from __future__ import annotations

import base64
import gzip
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

_WHOLE = (("u1", 1 << 8), ("u2", 1 << 16), ("u4", 1 << 32))


def narrow(values: ArrayLike) -> NDArray[Any]:
    """Returns the same numbers in the smallest unsigned type that holds them, otherwise in doubles. Little-endian."""
    array = np.asarray(values)
    if array.dtype.kind in "iu" and (not array.size or int(array.min()) >= 0):
        top = int(array.max()) if array.size else 0
        for name, limit in _WHOLE:
            if top < limit:
                return array.astype(f"<{name}")
    return array.astype("<f8")


class Pack:
    """Collects arrays; each is described by {at, type, n}: its byte offset, type and length in the block."""

    def __init__(self) -> None:
        self.parts: list[bytes] = []
        self.size = 0

    def add(self, values: ArrayLike) -> dict[str, Any]:
        array = narrow(values)
        entry = {"at": self.size, "type": array.dtype.str[1:], "n": len(array)}
        raw = array.tobytes()
        raw += bytes(-len(raw) % 8)  # typed arrays start at multiples of their size
        self.parts.append(raw)
        self.size += len(raw)
        return entry

    def add_ascending(self, values: Sequence[int] | NDArray[np.int64]) -> dict[str, Any]:
        """Adds ascending integers as the first one (`base`) and the differences, which are small."""
        array = np.asarray(values, np.int64)
        return {"base": int(array[0]) if len(array) else 0, **self.add(np.diff(array, prepend=array[:1]))}

    def joined(self) -> bytes:
        return b"".join(self.parts)


def gzipped(raw: bytes) -> bytes:
    """Compresses with gzip; the same bytes give the same result at any time."""
    return gzip.compress(raw, 9, mtime=0)


def text_of(packed: bytes) -> str:
    """Returns a block as text for a page: base64."""
    return base64.b64encode(packed).decode("ascii")
