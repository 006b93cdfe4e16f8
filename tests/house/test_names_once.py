"""A class name is defined once, so that a search for it has one answer: in the product, and in what tests share."""

from __future__ import annotations

import ast
import subprocess
from collections import defaultdict

import pytest
from places import ROOT

PRODUCT = ("analysis", "capture", "dashboards", "mburst", "sql", "telemetry")
SHARED = ("tests/lib",)


def classes(*folders: str) -> dict[str, list[str]]:
    """Where each class of the modules and stubs below FOLDERS is defined, nested ones too."""
    patterns = [f"{folder}/{ending}" for folder in folders for ending in ("*.py", "*.pyi")]
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--", *patterns], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.split("\0")
    found: dict[str, list[str]] = defaultdict(list)
    for path in (ROOT / name for name in listed if name):
        if not path.exists():  # removed, and not yet committed
            continue
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.ClassDef):
                found[node.name].append(f"{path.relative_to(ROOT)}:{node.lineno}")
    return found


@pytest.mark.parametrize("folders", [PRODUCT, SHARED], ids=["product", "tests"])
def test_a_class_name_is_defined_once(folders: tuple[str, ...]) -> None:
    found = classes(*folders)
    assert len(found) > 20
    assert not [f"{name}: {', '.join(places)}" for name, places in found.items() if len(places) > 1]
