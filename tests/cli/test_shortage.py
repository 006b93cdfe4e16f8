"""A shortage of memory, threads or files is an error in one line, ends the threads that wait for it, and damages no
file."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest
from storelib import write

from mburst.__main__ import _refusal
from mburst.errors import MORE_FILES, MORE_MEMORY, MburstError
from mburst.fleet.detect import _folder
from mburst.process import shortage
from mburst.sql import StoreFolder, segments, verified
from mburst.sql.format import batches

NO_MEMORY = f"mburst: not enough memory ({MORE_MEMORY})\n"

# Children, each with this many bytes more. The exit code of each is printed: 3 if a thread ran, 4 if it reports
# that it cannot. SIGALRM ends one that waits for ever.
START = """
import os, resource, signal, threading
from mburst.process import python

python.end_without_memory()
threading.stack_size(1 << 16)
size = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
for room in range(0, 1 << 18, 1 << 12):
    child = os.fork()
    if not child:
        signal.alarm(20)
        resource.setrlimit(resource.RLIMIT_AS, (size + room,) * 2)
        try:
            threading.Thread(target=int, daemon=True).start()
        except (MemoryError, RuntimeError):
            os._exit(4)
        os._exit(3)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


def of_duckdb() -> Exception:
    with duckdb.connect(config={"memory_limit": "1MB", "temp_directory": ""}) as connection:
        try:
            connection.execute("SELECT list(range) FROM range(10_000_000)").fetchall()
        except duckdb.Error as error:
            return error
    raise AssertionError("there was memory")


def of_arrow() -> Exception:
    try:
        pa.allocate_buffer(1 << 60)
    except pa.ArrowException as error:
        return error
    raise AssertionError("there was memory")


def of_linker() -> Exception:
    """The message of importing a library without enough memory; from ctypes it is an OSError without a number."""
    return ImportError("libarrow.so.2600: failed to map segment from shared object")


def of_numpy() -> Exception:
    """The same error from numpy, which puts a text of its own before it."""
    return ImportError(f"\n\nIMPORTANT: PLEASE READ THIS\n\n  * Python 3.11\n\nOriginal error was: {of_linker()}\n")


@pytest.mark.parametrize(
    ("failure", "message", "hint"),
    [
        (MemoryError, "not enough memory", MORE_MEMORY),
        (of_arrow, "not enough memory", MORE_MEMORY),
        (of_linker, f"not enough memory: {of_linker()}", MORE_MEMORY),
        (of_numpy, f"not enough memory: {of_linker()}", MORE_MEMORY),
        (lambda: ImportError("libpq.so: cannot open shared object file: Too many open files"), None, MORE_FILES),
        (lambda: OSError(errno.EMFILE, "x"), os.strerror(errno.EMFILE), MORE_FILES),
        (lambda: OSError(errno.ENOMEM, "x"), os.strerror(errno.ENOMEM), MORE_MEMORY),
        (of_duckdb, None, "query less at a time"),
        (lambda: duckdb.OutOfMemoryException("Failed to allocate block (bad allocation)"), None, MORE_MEMORY),
        (lambda: duckdb.IOException("IO Error: Cannot open file: Too many open files"), None, MORE_FILES),
        (lambda: RuntimeError("can't start new thread"), None, "allow it more (ulimit -v, ulimit -u)"),
        (lambda: SystemError("error return without exception set"), None, MORE_MEMORY),
        (lambda: SystemError("<built-in f> returned NULL without setting an exception"), None, MORE_MEMORY),
    ],
)
def test_a_shortage_is_named(failure, message, hint):
    found = shortage.of(failure())
    assert found and found.hint == hint and "\n" not in str(found)
    assert str(found) == message or message is None


@pytest.mark.parametrize(
    "error",
    [
        OSError(errno.ENOENT, "x"),
        ModuleNotFoundError("No module named 'pyspark'"),
        ImportError(""),
        ImportError("\nIMPORTANT\n\nOriginal error was: undefined symbol: x\n"),
        RuntimeError("dictionary changed size"),
        SystemError("bad argument to internal function"),
        ValueError("x"),
        pa.ArrowInvalid("not a Parquet file"),
        duckdb.IOException("IO Error: no magic bytes"),
        duckdb.BinderException("Binder Error: no such column"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_other_failures_are_no_shortage(error):
    assert shortage.of(error) is None


def test_a_thread_that_cannot_start_for_lack_of_memory_ends_the_process():
    """CPython before 3.15 waits for ever for a thread that died before it could report that it began."""
    done = subprocess.run([sys.executable, "-c", START], capture_output=True, text=True, timeout=120, check=True)
    endings = Counter(map(int, done.stdout.split()))
    assert set(endings) == {1, 3, 4}
    assert done.stderr == NO_MEMORY * endings[1]


@pytest.mark.parametrize("failure", ["MemoryError", "ImportError('libx.so: failed to map segment from shared object')"])
def test_a_thread_that_runs_out_of_memory_ends_the_process(failure):
    dying = f"""
import threading
from mburst.process import python

def fail(): raise {failure}

python.end_without_memory()
threading.Thread(target=fail).start()
threading.Event().wait()
"""
    done = subprocess.run([sys.executable, "-c", dying], capture_output=True, text=True, timeout=60)
    assert done.returncode == 1 and done.stderr.startswith("mburst: not enough memory"), done.stderr
    assert done.stderr.count("\n") == 1


def test_other_uncaught_failures_are_reported():
    lost = "import mburst.process.python as p\np.end_without_memory()\n"
    lost += "class A:\n def __del__(self): raise KeyError(7)\nA()\n"
    done = subprocess.run([sys.executable, "-c", lost], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 and "KeyError: 7" in done.stderr


@pytest.fixture(scope="module")
def segment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A sealed file of bins."""
    store = StoreFolder.create(tmp_path_factory.mktemp("shortage") / "store")
    for table in ("recordings", "bins"):
        write(store, table, {"recording_id": "r", "capture_id": "c", "host": "h", "writer_id": f"{1:012x}"})
    [path] = store.path.rglob("bins/**/*.parquet")
    return path


@pytest.mark.parametrize(
    ("where", "read"),
    [
        ("pyarrow.parquet.ParquetFile", verified.fault),
        ("pyarrow.parquet.read_metadata", lambda path: segments.sound_rows([path], [])),
        ("pyarrow.ipc.open_stream", lambda path: batches.from_stream(memoryview(b""), "bins")),
    ],
    ids=["verified", "counted", "of a hot log"],
)
def test_lack_of_memory_does_not_report_a_file_as_damaged(segment, monkeypatch, where, read):
    def short(*_: object, **__: object) -> None:
        raise of_arrow()

    monkeypatch.setattr(where, short)
    with pytest.raises(MburstError, match=r"cannot read.*: not enough memory"):
        read(segment)


def test_a_machine_without_a_folder_for_temporary_files(tmp_path, monkeypatch):
    """The error names no file: it was "system: No usable …" without a remedy, and "None: …" of a fleet."""
    monkeypatch.setattr(tempfile, "tempdir", None)
    monkeypatch.setattr(tempfile, "_candidate_tempdir_list", lambda: [str(tmp_path / "none")])
    with pytest.raises(FileNotFoundError) as caught:
        tempfile.gettempdir()
    refusal = _refusal(caught.value)
    assert refusal is not None and "TMPDIR" in refusal.hint
    assert str(refusal).startswith("temporary files: No usable temporary directory found in ")
    with pytest.raises(MburstError, match=r"^temporary files: No usable"), _folder(None):
        pass
