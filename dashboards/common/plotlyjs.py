"""plotly's script, as the plotly package brings it and as pages carry it."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cache

from ...kept import KeptFile, content_of
from .packing import gzipped


@dataclass(frozen=True)
class PackedScript:
    """A script: its SHA-256, and itself by gzip."""

    sha256: bytes
    gzip: bytes


@cache
def packed() -> PackedScript:
    """The script of the plotly package that is installed. It takes 0.2 s to pack, so that is done once."""
    import plotly
    from plotly.offline import get_plotlyjs

    script = get_plotlyjs().encode()
    kept = KeptFile(__file__, f"plotly-{plotly.__version__}", script)
    return PackedScript(hashlib.sha256(script).digest(), content_of(kept, lambda: gzipped(script)))
