"""plotly's script is packed once, and the packed script equals the installed one."""

from __future__ import annotations

import gzip
import hashlib
import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from plotly.offline import get_plotlyjs

from mburst.dashboards.common import plotlyjs


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder in which the packed script is kept during a test."""
    monkeypatch.setattr(importlib.util, "cache_from_source", lambda _: str(tmp_path / "kept" / "plotlyjs.pyc"))
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    plotlyjs.packed.cache_clear()
    yield tmp_path / "kept"
    plotlyjs.packed.cache_clear()


def unpacked() -> str:
    plotlyjs.packed.cache_clear()
    packed = plotlyjs.packed()
    script = gzip.decompress(packed.gzip)
    assert hashlib.sha256(script).digest() == packed.sha256
    return script.decode()


def test_the_script_is_packed_once(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert unpacked() == get_plotlyjs()
    [kept] = folder.iterdir()
    monkeypatch.setattr(plotlyjs, "gzipped", None)
    assert unpacked() == get_plotlyjs()
    assert list(folder.iterdir()) == [kept]


def test_a_damaged_script_is_packed_again(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = "".join(map(str, range(9999)))  # shorter, and as good
    monkeypatch.setattr("plotly.offline.get_plotlyjs", lambda: script)
    unpacked()
    [kept] = folder.iterdir()
    whole = kept.read_bytes()
    for damaged in (b"", whole[:10], whole[:-1], whole + b"\0", whole[:5000] + b"?" + whole[5001:], b"\0" * len(whole)):
        kept.write_bytes(damaged)
        assert unpacked() == script
        assert kept.read_bytes() == whole


def test_another_version_replaces_the_script(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    unpacked()
    [kept] = folder.iterdir()
    monkeypatch.setattr("plotly.offline.get_plotlyjs", lambda: "a script of another plotly")
    assert unpacked() == "a script of another plotly"
    assert [path == kept for path in folder.iterdir()] == [False]


def test_the_script_is_packed_without_a_place_to_keep_it(folder: Path) -> None:
    folder.write_text("a file")
    assert unpacked() == get_plotlyjs()
