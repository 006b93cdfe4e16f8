"""Python warnings for data that an answer leaves out, because files of the store are damaged or days were compacted."""

from __future__ import annotations

import contextlib
import sys
import warnings
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..sql.damage import DamagedFile

HERE = str(Path(__file__).parent)


class DamagedFileWarning(UserWarning):
    """A file of the store is damaged, and the answer comes from the other files. `damaged` says what is missing."""

    def __init__(self, damaged: DamagedFile) -> None:
        super().__init__(str(damaged))
        self.damaged = damaged


class CompactedWarning(UserWarning):
    """Older days of the store were compacted, and the answer leaves them out."""


def warn(files: Iterable[DamagedFile]) -> None:
    """Warn of each damaged file, at the line outside of this package that made the call."""
    _warn([DamagedFileWarning(file) for file in files])


def warn_of_limits(sentences: Iterable[str]) -> None:
    """Warn of each limit of the answer, at the line outside of this package that made the call."""
    _warn([CompactedWarning(sentence) for sentence in sentences])


def _warn(found: Sequence[UserWarning]) -> None:
    level, frame = 1, sys._getframe()
    while frame.f_back is not None and frame.f_code.co_filename.startswith((HERE, contextlib.__file__)):
        level, frame = level + 1, frame.f_back
    for one in found:
        warnings.warn(one, stacklevel=level)
