"""Compiles C of the tests and of the engine: each object once, for all callers, in build/tests.

The name of an object is derived from its inputs: the preprocessed source and the flags. So test files, the processes of
one run and the next run share objects, and flags that do not change a source cost nothing.
"""

from __future__ import annotations

import fcntl
import functools
import hashlib
import os
import shutil
import subprocess
import tempfile
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from places import ROOT

CC = os.environ.get("CC", "cc")
# -g1 is enough for the lines of a trace; with -Og, compiling takes half the time of -g and -O1. Without the passes of
# -O1, gcc mistakes initialized variables for uninitialized ones.
SANITIZE = ("-g1", "-Og", "-Wno-maybe-uninitialized", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")
OPTIMIZE = ("-O3",)  # as users have it
_HEADERS = (f"-I{ROOT / 'capture'}", f"-I{ROOT / 'telemetry' / 'probe'}")
_ALWAYS = ("-std=gnu11", "-Wall", "-Wextra", "-Werror", "-D_GNU_SOURCE", *_HEADERS)
_LIBRARIES = [
    ("zlib.h", "MB_HAVE_ZLIB", "-lz"),
    ("zstd.h", "MB_HAVE_ZSTD", "-lzstd"),
    ("lzma.h", "MB_HAVE_LZMA", "-llzma"),
]
_OBJECTS = ROOT / "build" / "tests"
_ONE_THREAD = threading.Lock()


def program(*sources: str, flags: tuple[str, ...] = SANITIZE, link: tuple[str, ...] = ()) -> Path:
    """Returns the program of drivers (paths below the root), linked with the whole engine."""
    return linked(sources + engine_sources(), flags, link)


@functools.cache
def linked(
    sources: tuple[str, ...],
    flags: tuple[str, ...] = SANITIZE,
    link: tuple[str, ...] = (),
    libraries: tuple[str, ...] | None = None,
) -> Path:
    """Returns the sources (paths below the root) as a program or library, valid for the life of this process."""
    with ThreadPoolExecutor(2) as pool:
        objects = list(pool.map(lambda name: compiled(ROOT / name, flags), sources))
    out = Path(tempfile.mkdtemp(dir=_folder().name)) / "program"
    _run(CC, *flags, *link, "-o", out, *objects, *(_engine_libraries() if libraries is None else libraries))
    return out


def library(source: str, *link: str) -> Path:
    """Returns the source (path below the root) as a library that is linked with no other."""
    return linked((source,), ("-O1", "-fPIC"), ("-shared", *link), libraries=())


def engine_sources() -> tuple[str, ...]:
    """Returns every C file of the engine except the Python binding."""
    return tuple(name for name in sources_of("capture") if not name.startswith("capture/python/"))


def sources_of(room: str) -> tuple[str, ...]:
    """Returns every C file below a folder, as paths below the root."""
    return tuple(sorted(str(path.relative_to(ROOT)) for path in (ROOT / room).rglob("*.c")))


@functools.cache
def compiled(source: Path, flags: tuple[str, ...]) -> Path:
    """Returns the object of a source, which must not change. If another process is compiling it, waits for that
    process."""
    macros = tuple(f"-D{macro}=1" for header, macro, _ in _LIBRARIES if header in decompressors())
    if source.parent.name == "ebpf" and (program := kernel_program()):
        macros += (f'-DMB_EBPF_OBJECT="{program}"',)
    command = (CC, *_ALWAYS, *macros, *flags, source)
    others = [flag for flag in flags if flag[:2] not in ("-D", "-U")]  # -D and -U are in the preprocessed source
    made_of = _run(*command, "-E") + repr((_version(), others)).encode()
    out = _OBJECTS / f"{source.stem}-{hashlib.sha256(made_of).hexdigest()[:16]}.o"
    _OBJECTS.mkdir(parents=True, exist_ok=True)
    with out.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not out.exists():
            _run(*command, "-c", "-o", out.with_suffix(".part"))
            out.with_suffix(".part").rename(out)
    return out


def _engine_libraries() -> tuple[str, ...]:
    of_files = (library for header, _, library in _LIBRARIES if header in decompressors())
    of_kernel = ("-lbpf",) if kernel_program() else ()
    return (*of_files, *of_kernel, "-lpcap", "-lpthread", "-lm")


def kernel_program() -> Path | None:
    """Returns the program that --backend ebpf loads into the kernel, compiled; None if clang or libbpf's headers are
    missing. Its name depends on its content, because it is part of an object whose name does. Objects are compiled in
    threads: the first compiles it."""
    with _ONE_THREAD:
        return _kernel_program()


@functools.cache
def _kernel_program() -> Path | None:
    if not shutil.which("clang") or not _has("bpf/libbpf.h"):
        return None
    made = Path(_folder().name) / "count.bpf.o"
    _run("sh", ROOT / "capture" / "backend" / "ebpf" / "build", made)
    content = made.read_bytes()
    out = _OBJECTS / f"count-{hashlib.sha256(content).hexdigest()[:16]}.bpf.o"
    _OBJECTS.mkdir(parents=True, exist_ok=True)
    part = out.with_suffix(f".{os.getpid()}")
    part.write_bytes(content)
    part.rename(out)
    return out


@functools.cache
def decompressors() -> frozenset[str]:
    """Headers of the decompression libraries that this machine has."""
    return frozenset(header for header, _, _ in _LIBRARIES if _has(header))


def _has(header: str) -> bool:
    command = [CC, "-E", "-x", "c", "-", "-o", os.devnull]
    return subprocess.run(command, input=f"#include <{header}>\n", text=True, capture_output=True).returncode == 0


@functools.cache
def _version() -> bytes:
    return _run(CC, "--version")


@functools.cache
def _folder() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="mburst-built-")


def _run(*command: str | Path) -> bytes:
    done = subprocess.run([str(word) for word in command], capture_output=True)
    assert done.returncode == 0, done.stderr.decode(errors="replace")
    return done.stdout
