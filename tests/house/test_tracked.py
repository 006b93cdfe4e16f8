"""The repository has sources and small samples, and no files that a program wrote while it was tried."""

from __future__ import annotations

import re
from pathlib import Path

from places import ROOMS, ROOT
from tracked import tracked

FOLDERS = {*ROOMS, ".ci", "bench", "docs", "examples", "mburst", "release", "tests"}
FILES = {
    ".clang-format",
    ".editorconfig",
    ".git-blame-ignore-revs",
    ".gitignore",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "LICENSE",
    "MANIFEST.in",
    "Makefile",
    "README.md",
    "SECURITY.md",
    "pyproject.toml",
    "setup.py",
}
MOST_BYTES = 200_000
# POSIX's portable characters, and `date=…` and `%20` for folders of a store.
PORTABLE = re.compile(r"(?:[A-Za-z0-9._=+-]|%[0-9A-F]{2})+")
# Files that mburst writes: those of a store, and pages.
WRITTEN = {".parquet", ".arrows", ".verified", ".html"}
SAMPLES = (Path("tests/data"), Path("dashboards/templates"))


def test_the_top_level_matches_the_architecture() -> None:
    assert {path.parts[0] for path in tracked()} == FOLDERS | FILES
    assert {str(path) for path in tracked() if len(path.parts) == 1} == FILES


def test_files_are_small() -> None:
    assert [path for path in tracked() if (ROOT / path).lstat().st_size > MOST_BYTES] == []


def test_names_are_portable() -> None:
    assert [path for path in tracked() if not all(map(PORTABLE.fullmatch, path.parts))] == []


def test_files_that_mburst_writes_are_only_among_the_samples() -> None:
    written = [path for path in tracked() if path.suffix in WRITTEN]
    assert written and [path for path in written if not any(path.is_relative_to(room) for room in SAMPLES)] == []
