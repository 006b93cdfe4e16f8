"""The files of the tree that git tracks."""

from __future__ import annotations

import os
import subprocess
from functools import cache
from pathlib import Path

from places import ROOT


@cache
def tracked(*patterns: str) -> tuple[Path, ...]:
    """Returns tracked files that match one of PATTERNS (none: all), relative to the root of the tree; without removed
    files whose removal is not committed yet."""
    command = ["git", "ls-files", "-z", "--", *patterns]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, check=True).stdout
    found = (Path(os.fsdecode(name)) for name in listed.split(b"\0") if name)
    return tuple(path for path in found if os.path.lexists(ROOT / path))
