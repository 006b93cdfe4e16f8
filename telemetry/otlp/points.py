"""Points in columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]


@dataclass
class Points:
    """Points of known series, in columns of the same length."""

    series: NDArray[np.int32]
    feed: NDArray[np.int32]
    ts_ns: Ints
    start_ns: Ints  # when the counter began, according to the sender; 0: not stated
    value: Ints
    receive_ns: Ints  # our clock

    @classmethod
    def joined(cls, parts: Sequence[Points]) -> Points:
        """All PARTS, one after the other."""
        return cls(*(np.concatenate([getattr(part, name) for part in parts]) for name in cls.__annotations__))

    def chosen(self, at: Any) -> Points:
        """The points at these places."""
        return Points(*(getattr(self, name)[at] for name in self.__annotations__))

    def __len__(self) -> int:
        return len(self.series)
