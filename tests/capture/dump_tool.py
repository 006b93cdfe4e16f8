"""Runs tests/c/dump_frames.c, which contains the engine, and reads its output."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from building import program


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


def dump_frames() -> Path:
    return program("tests/c/dump_frames.c")


def run(path: Path, *arguments: str | Path, stdin: bytes | None = None) -> tuple[int, str]:
    """Returns exit code (0 or 1) and output of a program. A crash or a finding of a sanitizer fails the test."""
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
    """Returns the output of dump_frames for the files as one capture."""
    code, output = run(dump_frames(), *arguments, stdin=stdin)
    made = parse(output)
    assert (code == 1) == bool(made.error)
    return made


def dump_each(paths: list[Path]) -> dict[Path, Dump]:
    """Returns the output for each of the files, read in one process."""
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
