"""A name is defined once, so that a search for it has one answer: the name of a class of the product, of a class that
tests share, and of a test file. In C, files may give one name different meanings; one meaning is defined once."""

from __future__ import annotations

import ast
import re
from collections import defaultdict

import pytest
from places import ROOT
from tracked import tracked

PRODUCT = ("analysis", "capture", "dashboards", "mburst", "sql", "telemetry")
SHARED = ("tests/lib",)
ROOMS_OF_C = ("capture", "sql/compaction", "telemetry/probe")  # a room is built alone: it has no headers of another
MACRO = re.compile(r"^[ \t]*#[ \t]*define[ \t]+(\w+)(.*)$", re.MULTILINE)
ENUM = re.compile(r"\benum\b[^;{}()]*\{([^}]*)\}")
FUNCTION = re.compile(r"^static [^;{}=]*?(\w+)(\([^;{}=]*\)\n\{\n.*?^\})", re.MULTILINE | re.DOTALL)


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


def definitions(code: str) -> set[tuple[str, str]]:
    """Returns the macros, numbered enumerators and static functions that CODE, in C, defines: names with values."""
    code = re.sub(r"/\*.*?\*/", "", code.replace("\\\n", " "), flags=re.DOTALL)
    enumerators = [entry.partition("=") for body in ENUM.findall(code) for entry in body.split(",") if "=" in entry]
    found = [*MACRO.findall(code), *((name, value) for name, _, value in enumerators), *FUNCTION.findall(code)]
    values = [(name.strip(), re.sub(r"(?<=[\da-f])[uUlL]+\b", "", " ".join(value.split()))) for name, value in found]
    return {(name, value) for name, value in values if value}


@pytest.mark.parametrize("room", ROOMS_OF_C)
def test_a_meaning_is_defined_in_one_file_of_c(room: str) -> None:
    found: dict[tuple[str, str], list[str]] = defaultdict(list)
    for path in tracked(f"{room}/*.c", f"{room}/*.h"):
        for definition in definitions((ROOT / path).read_text("utf-8")):
            found[definition].append(str(path))
    assert len(found) > 20
    assert not [f"{name}: {', '.join(paths)}" for (name, _), paths in sorted(found.items()) if len(paths) > 1]
