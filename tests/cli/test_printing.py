"""Output that cannot be printed is an error in one line with exit code 1; a reader that stops reading is no error."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from ports import free_port
from storelib import sealed_files, write
from waiting import wait_for

from mburst.sql import StoreFolder

MBURST = [sys.executable, "-m", "mburst"]
PRINTING = [
    ["--help"],
    ["bursts", "--help"],
    ["--version"],
    ["sql", "STORE", "SELECT 1"],
    ["sql", "STORE", "FROM range(200000)"],
    ["sql", "STORE", "FROM range(200000)", "--json"],
    ["check", "STORE"],
    ["status", "STORE"],
]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return StoreFolder.create(tmp_path_factory.mktemp("printing") / "store").path


def run(words: list[str], store: Path, ending: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Runs a command with a redirection of the shell."""
    command = [*MBURST, *(str(store) if word == "STORE" else word for word in words)]
    return subprocess.run(
        ["sh", "-c", f'exec "$@" {ending}', "sh", *command],
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, **variables},
    )


@pytest.mark.parametrize("unbuffered", ["", "1"], ids=["buffered", "each line at once"])
@pytest.mark.parametrize("words", PRINTING, ids=" ".join)
def test_a_full_disk_is_named_once(words, unbuffered, store):
    done = run(words, store, ">/dev/full", PYTHONUNBUFFERED=unbuffered)
    assert (done.returncode, done.stderr) == (1, "mburst: standard output: No space left on device\n")


@pytest.mark.parametrize("words", PRINTING, ids=" ".join)
def test_a_closed_output_is_no_failure(words, store):
    done = run(words, store, ">&-")
    assert done.returncode == 0 and "Traceback" not in done.stderr and "Exception" not in done.stderr


@pytest.mark.parametrize("unbuffered", ["", "1"], ids=["buffered", "each line at once"])
def test_a_socket_whose_reader_has_left_is_no_failure(unbuffered, store):
    """The error is another one than that of a pipe if it left something unread."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        ours = socket.create_connection(server.getsockname())
        other, _ = server.accept()
    command = [*MBURST, "sql", str(store), "FROM range(20000)"]
    with ours, other:
        ours.send(b"not read")
        wait_for(lambda: other.recv(1, socket.MSG_PEEK), "the text")
        other.close()
        done = subprocess.run(
            command,
            stdout=ours,
            stderr=subprocess.PIPE,
            text=True,
            timeout=60,
            env={**os.environ, "PYTHONUNBUFFERED": unbuffered},
        )
    assert (done.returncode, done.stderr) == (0, "")


def test_another_stream_gets_all_rows_after_the_reader_has_left(tmp_path):
    """As a demo reads the bursts that it found."""
    program = """
import io, os, sys
from mburst.cli import output
from mburst.process import printing
printing.own_process()
rows = [(n,) for n in range(3)]
def written(out):
    output.write("json", ["n"], rows, out)
    output.write("csv", ["n"], rows, out)
    output.write("table", ["n"], rows, out)
written(before := io.StringIO())
print("lost", flush=True)
written(after := io.StringIO())
sys.exit(before.getvalue() != after.getvalue() or list(printing.read_rows(rows, sys.stdout)) != [])
"""
    reader, writer = os.pipe()
    os.close(reader)
    assert subprocess.run([sys.executable, "-c", program], stdout=writer, timeout=60).returncode == 0
    os.close(writer)


def test_a_failure_with_closed_error_output_keeps_its_exit_code(store):
    done = run(["bursts", "nowhere"], store, "2>&-")
    assert (done.returncode, done.stdout) == (1, "")


def test_a_reader_that_stops_reading_is_no_failure(store):
    with subprocess.Popen(
        [*MBURST, "sql", str(store), "FROM range(1000000)"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout and process.stderr
        process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == b"" and process.wait(60) == 0


@pytest.mark.parametrize("unbuffered", ["", "1"], ids=["buffered", "each line at once"])
@pytest.mark.parametrize(
    "words",
    [
        ["status", "STORE"],
        ["status", "STORE", "--json"],
        ["check", "STORE"],
        ["bursts", "STORE"],
        ["sql", "STORE", "SELECT unnest(range(200000)) FROM (SELECT count(*) FROM bins)"],
        ["sql", "STORE", "SELECT unnest(range(200000)) FROM (SELECT count(*) FROM bins)", "--csv"],
        ["fleet", "status", "nowhere"],
    ],
    ids=" ".join,
)
def test_a_failure_without_a_reader_keeps_its_exit_code(words, unbuffered, tmp_path):
    """A monitor that pipes the output must see it."""
    store = StoreFolder.create(tmp_path / "store")
    write(store, "bins", {"ts_ns": 1_700_000_000_000_000_000})
    store.seal()
    [file] = sealed_files(store, "bins")
    file.write_bytes(file.read_bytes()[:-5])
    command = [*MBURST, *(str(store.path) if word == "STORE" else word for word in words)]
    reading, writing = os.pipe()
    os.close(reading)
    variables = {**os.environ, "PYTHONUNBUFFERED": unbuffered}
    with subprocess.Popen(command, stdout=writing, stderr=subprocess.PIPE, env=variables) as process:
        os.close(writing)
        assert process.stderr and b"Traceback" not in process.stderr.read() and process.wait(60) == 1


LASTING = [
    (["reflect", "--listen", "127.0.0.1:PORT"], signal.SIGINT, 130),
    (["probe", "127.0.0.1:9", "--count", "2", "--timeout", "100ms"], None, 1),  # no output
]


@pytest.mark.parametrize("unbuffered", ["", "1"], ids=["buffered", "each line at once"])
@pytest.mark.parametrize(("words", "ended_by", "code"), LASTING, ids=[words[0] for words, *_ in LASTING])
def test_a_command_that_runs_until_a_signal_outlives_its_reader(words, ended_by, code, unbuffered):
    """Its exit code is that of its work: after 0, a service manager would not restart it."""
    words = [word.replace("PORT", str(free_port())) for word in words]
    reading, writing = os.pipe()
    variables = {**os.environ, "PYTHONUNBUFFERED": unbuffered}
    with subprocess.Popen([*MBURST, *words], stdout=writing, stderr=writing, env=variables) as process:
        os.close(writing)
        if ended_by:
            os.read(reading, 1)  # it has begun
        os.close(reading)
        if ended_by:
            process.send_signal(ended_by)
        assert process.wait(60) == code


def test_a_full_disk_below_the_output_ends_no_verb_that_repeats_its_work(store, tmp_path):
    """Such as the compaction that makes room on that disk. The second line of output shows that it went on."""
    sources = [tmp_path / "a.csv", tmp_path / "b.csv"]
    for number, source in enumerate(sources):
        source.write_text(f"address,name\n198.51.100.{number},host\n")
    errors = tmp_path / "errors"
    with errors.open("w") as error, open("/dev/full", "w") as full:
        words = ["names", str(store), *map(str, sources), "--every", "1h"]
        process = subprocess.Popen([*MBURST, *words], stdout=full, stderr=error)
    try:
        full_disk = "mburst: standard output: No space left on device\n"
        wait_for(lambda: errors.read_text() == 2 * full_disk or process.poll() is not None, "both lines")
        assert process.poll() is None, errors.read_text()
    finally:
        process.terminate()
        process.wait(60)


def test_a_failure_without_a_reader_of_errors_keeps_its_exit_code():
    reading, writing = os.pipe()
    os.close(reading)
    with subprocess.Popen([*MBURST, "bursts", "nowhere"], stdout=subprocess.PIPE, stderr=writing) as process:
        os.close(writing)
        assert process.stdout and process.stdout.read() == b"" and process.wait(60) == 1
