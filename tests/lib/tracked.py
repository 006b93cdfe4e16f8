"""What git has of the tree."""

from __future__ import annotations

import os
import subprocess
from functools import cache
from pathlib import Path

from places import ROOT


@cache
def tracked(*patterns: str) -> tuple[Path, ...]:
    """Tracked files that match one of PATTERNS (none: all), from the root of the tree; without those that were removed
    and whose removal is not yet committed."""
    command = ["git", "ls-files", "-z", "--", *patterns]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, check=True).stdout
    found = (Path(os.fsdecode(name)) for name in listed.split(b"\0") if name)
    return tuple(path for path in found if os.path.lexists(ROOT / path))
