"""The script of plotly from the plotly package, as pages embed it."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cache

from ...kept import KeptFile
from .packing import gzipped


@dataclass(frozen=True)
class PackedScript:
    """A script: its SHA-256, and its gzip-compressed text."""

    sha256: bytes
    gzip: bytes


@cache
def packed() -> PackedScript:
    """Returns the script of the installed plotly package. Packing takes 0.2 s and is done once."""
    import plotly
    from plotly.offline import get_plotlyjs

    script = get_plotlyjs().encode()
    sha256 = hashlib.sha256(script).digest()
    kept = KeptFile(__file__, f"plotly-{plotly.__version__}", sha256)
    if (content := kept.read()) is None:
        kept.write(content := gzipped(script))
    return PackedScript(sha256, content)
