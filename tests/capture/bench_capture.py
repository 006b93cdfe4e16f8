"""The generated captures of the benchmarks, for tests."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from places import ROOT

BENCH = ROOT / "bench"


def make_capture(path: Path, *arguments: str) -> Path:
    """Runs bench/make_capture.py to write PATH."""
    subprocess.run([sys.executable, BENCH / "make_capture.py", path, *arguments], check=True)
    return path
