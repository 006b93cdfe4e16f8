"""Builds tests/c/dump_frames.c with the engine's sources, runs it, and reads what it says."""

from __future__ import annotations

import functools
import os
import subprocess
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent.parent
SANITIZE = ("-g", "-O1", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")
LIBRARIES = [
    ("zlib.h", "MB_HAVE_ZLIB", "-lz"),
    ("zstd.h", "MB_HAVE_ZSTD", "-lzstd"),
    ("lzma.h", "MB_HAVE_LZMA", "-llzma"),
]


class Frame(NamedTuple):
    ts_ns: int
    interface: int
    caplen: int
    len: int
    direction: int
    quality: int
    fingerprint: str


class Interface(NamedTuple):
    linktype: int
    snaplen: int
    link_bps: int
    fcs_len: int
    quality: int
    name: str


@dataclass
class Dump:
    error: str = ""
    notice: str = ""
    frames: list[Frame] = field(default_factory=list)
    interfaces: list[Interface] = field(default_factory=list)
    count: int = 0
    bytes: int = 0
    filtered: int = 0
    dropped: int = 0
    drop_span: tuple[int, int] = (0, 0)
    late: int = 0


def fingerprint(data: bytes) -> str:
    """FNV-1a of 32 bits, as dump_frames prints it."""
    value = 2166136261
    for byte in data:
        value = (value ^ byte) * 16777619 & 0xFFFFFFFF
    return f"{value:08x}"


def has_header(header: str) -> bool:
    probe = subprocess.run(
        ["cc", "-E", "-x", "c", "-", "-o", os.devnull], input=f"#include <{header}>\n", text=True, capture_output=True
    )
    return probe.returncode == 0


@functools.cache
def decompressors() -> frozenset[str]:
    """Headers of the decompression libraries that this machine has."""
    return frozenset(header for header, _, _ in LIBRARIES if has_header(header))


@functools.cache
def _folder() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="mburst-dump-")


def compile_one(source: Path, out: Path, flags: tuple[str, ...]) -> Path:
    macros = [f"-D{macro}=1" for header, macro, _ in LIBRARIES if header in decompressors()]
    command = ["cc", "-std=gnu11", "-Wall", "-Wextra", "-Werror", "-D_GNU_SOURCE", f"-I{ROOT / 'capture'}"]
    subprocess.run([*command, *macros, *flags, "-c", "-o", str(out), str(source)], check=True)
    return out


@functools.cache
def engine(flags: tuple[str, ...]) -> list[Path]:
    """The engine without its Python binding, compiled once in a test run."""
    folder = Path(tempfile.mkdtemp(dir=_folder().name))
    sources = [path for path in sorted((ROOT / "capture").glob("*.c")) if not path.name.startswith("module")]
    with ThreadPoolExecutor(2) as pool:
        return list(pool.map(lambda path: compile_one(path, folder / f"{path.stem}.o", flags), sources))


@functools.cache
def program(*drivers: str, flags: tuple[str, ...] = SANITIZE) -> Path:
    """The drivers (paths below tests/) linked with the engine."""
    folder = Path(tempfile.mkdtemp(dir=_folder().name))
    objects = [compile_one(ROOT / "tests" / name, folder / f"{Path(name).stem}.o", flags) for name in drivers]
    libraries = [library for header, _, library in LIBRARIES if header in decompressors()]
    out = folder / "program"
    command = ["cc", *flags, "-o", out, *objects, *engine(flags), *libraries, "-lpcap", "-lpthread", "-lm"]
    subprocess.run([str(word) for word in command], check=True)
    return out


def dump_frames() -> Path:
    return program("c/dump_frames.c")


def run(path: Path, *arguments: str | Path, stdin: bytes | None = None) -> tuple[int, str]:
    """Exit code (0 or 1) and output of a program; a crash or a sanitizer's finding fails the test."""
    done = subprocess.run(
        [str(path), *map(str, arguments)],
        input=stdin,
        stdin=subprocess.DEVNULL if stdin is None else None,
        capture_output=True,
        timeout=120,
        check=False,
    )
    assert done.returncode in (0, 1) and not done.stderr, done.stderr.decode(errors="replace")
    return done.returncode, done.stdout.decode()


def dump(*arguments: str | Path, stdin: bytes | None = None) -> Dump:
    """What dump_frames says of the files as one capture."""
    code, output = run(dump_frames(), *arguments, stdin=stdin)
    made = parse(output)
    assert (code == 1) == bool(made.error)
    return made


def dump_each(paths: list[Path]) -> dict[Path, Dump]:
    """What it says of each of the files, in one process."""
    _, output = run(dump_frames(), "-e", *paths)
    parts = output.split("file ")[1:]
    assert len(parts) == len(paths)
    return {path: parse(part.partition("\n")[2]) for path, part in zip(paths, parts, strict=True)}


def parse(output: str) -> Dump:
    result = Dump()
    for line in output.splitlines():
        kind, _, rest = line.partition(" ")
        words = rest.split(" ")
        if kind == "frame":
            ts_ns, interface, caplen, length, direction, quality = map(int, words[:6])
            result.frames.append(Frame(ts_ns, interface, caplen, length, direction, quality, words[6]))
        elif kind == "interface":
            linktype, snaplen, link_bps, fcs_len, quality = map(int, words[1:6])
            name = rest.split(" ", 6)[6]
            result.interfaces.append(Interface(linktype, snaplen, link_bps, fcs_len, quality, name))
        elif kind == "stats":
            result.count, result.bytes, result.filtered, result.dropped, *span = map(int, words)
            result.drop_span = (span[0], span[1])
        elif kind == "late":
            result.late = int(rest)
        elif kind in ("error:", "notice"):
            setattr(result, kind.rstrip(":"), rest)
    return result
