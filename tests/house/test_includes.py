"""Each C file includes the headers of the functions that it calls: the Python.h of this Python includes more headers
than that of a newer one."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from places import ROOT

DECLARES = {
    "stdio.h": r"\b(v?snprintf|[fs]?printf|sscanf|fopen|fclose|fputs|getline|asprintf)\(",
    "string.h": r"\b(mem(cpy|set|cmp|move|chr)|str(n?len|n?cmp|r?chr|str|error|dup))\(",
    "stdlib.h": r"\b([mc]alloc|realloc|free|strtou?ll?|qsort|bsearch|getenv|aligned_alloc|abort)\(",
    "errno.h": r"\berrno\b|-E[A-Z]{2,}\b",
}
ROOMS = ("capture", "telemetry/probe", "sql/compaction")
FILES = [(room, path) for room in ROOMS for path in sorted((ROOT / room).rglob("*.c"))]


def included(path: Path, room: Path, seen: set[Path]) -> set[str]:
    """Returns the system headers that a file includes, directly or by headers of this project."""
    if path in seen or not path.exists():
        return set()
    seen.add(path)
    found = re.findall(r'^#include ([<"])(.+?)[>"]', path.read_text(), re.MULTILINE)
    ours = [included(room / name, room, seen) for mark, name in found if mark == '"']
    return {name for mark, name in found if mark == "<"}.union(*ours)


@pytest.mark.parametrize(("room", "path"), FILES, ids=[str(path.relative_to(ROOT)) for _, path in FILES])
def test_called_functions_are_declared(room: str, path: Path) -> None:
    code = re.sub(r"/\*.*?\*/", "", path.read_text(), flags=re.DOTALL)
    called = {header for header, words in DECLARES.items() if re.search(words, code)}
    assert not called - included(path, ROOT / room, set())
