"""Frames in, bins out: the C engine.

`Capture` is documented in _engine.pyi; the engine's own contracts stand in the headers beside it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ._engine import Capture, Rows

if TYPE_CHECKING:
    from ._engine import Facts, Lane

__all__ = ["Capture", "Facts", "Lane", "Rows"]
