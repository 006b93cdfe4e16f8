"""A name is defined once, so that a search for it has one answer: the name of a class of the product, of a class that
tests share, and of a test file."""

from __future__ import annotations

import ast
from collections import defaultdict

import pytest
from places import ROOT
from tracked import tracked

PRODUCT = ("analysis", "capture", "dashboards", "mburst", "sql", "telemetry")
SHARED = ("tests/lib",)


def classes(*folders: str) -> dict[str, list[str]]:
    """Returns where each class of the modules and stubs below FOLDERS is defined, nested classes included."""
    patterns = [f"{folder}/{ending}" for folder in folders for ending in ("*.py", "*.pyi")]
    found: dict[str, list[str]] = defaultdict(list)
    for path in tracked(*patterns):
        for node in ast.walk(ast.parse((ROOT / path).read_text("utf-8"))):
            if isinstance(node, ast.ClassDef):
                found[node.name].append(f"{path}:{node.lineno}")
    return found


@pytest.mark.parametrize("folders", [PRODUCT, SHARED], ids=["product", "tests"])
def test_a_class_name_is_defined_once(folders: tuple[str, ...]) -> None:
    found = classes(*folders)
    assert len(found) > 20
    assert not [f"{name}: {', '.join(places)}" for name, places in found.items() if len(places) > 1]


def test_the_name_of_a_test_file_is_unique() -> None:
    """pytest imports test files by their names alone: of two files with one name, one is not run."""
    found: dict[str, list[str]] = defaultdict(list)
    for path in (ROOT / "tests").rglob("test_*.py"):
        found[path.name].append(str(path.relative_to(ROOT)))
    assert len(found) > 200
    assert not [places for places in found.values() if len(places) > 1]
