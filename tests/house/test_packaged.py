"""The package contains every file that the code reads. Tests use an editable installation, which has all files
anyway."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from places import ROOMS, ROOT
from tracked import tracked

COMPILED = {".c", ".h"}


def test_every_tracked_file_is_in_the_package(tmp_path: Path) -> None:
    if not (ROOT / ".git").exists():
        pytest.skip("not a checkout: which files are tracked is not known")
    build = [sys.executable, "setup.py", "--quiet", "build_py", "--build-lib", str(tmp_path)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    links = {Path("mburst", room) for room in ROOMS}  # to the rooms, which setup.py maps
    wanted = {
        path if path.parts[0] == "mburst" else Path("mburst", path)
        for path in tracked("mburst", *ROOMS)
        if path not in links and path.suffix not in COMPILED and path.name != "build"
    }
    missing = sorted(str(path) for path in wanted if not (tmp_path / path).is_file())
    assert not missing
    assert len(wanted) > 500
