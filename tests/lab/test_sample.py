"""The sample capture of the repository equals the output of its script, and is small."""

from __future__ import annotations

import gzip
import runpy
from pathlib import Path

import pyarrow as pa
import pytest
from captures import SAMPLE
from places import ROOT

FILES = sorted(path.name for path in SAMPLE.folder.iterdir() if path.suffix in (".zst", ".gz", ".csv"))


def content(path: Path) -> bytes:
    """Returns the bytes of a file, decompressed: two releases of a compressor may write the same content
    differently."""
    if path.suffix == ".zst":
        with pa.CompressedInputStream(pa.OSFile(str(path)), "zstd") as stream:
            return stream.read()
    return gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sample")
    runpy.run_path(str(SAMPLE.folder / "make.py"))["make"](folder)
    return folder


def test_the_script_makes_all_files(made: Path) -> None:
    assert sorted(path.name for path in made.iterdir()) == FILES
    assert len(FILES) == 5


@pytest.mark.parametrize("name", FILES)
def test_the_script_makes_it_byte_for_byte(name: str, made: Path) -> None:
    assert content(made / name) == content(SAMPLE.folder / name), "run examples/cache-server/make.py"


def test_binary_files_are_small() -> None:
    for path in (ROOT / "examples").rglob("*"):
        assert not path.is_file() or path.stat().st_size < 200_000, path
