"""Sources of bytes: files, pipes, compressed data, and files that are no capture."""

from __future__ import annotations

import gzip
import lzma
import os
import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import capture_builder as build
import pytest
from building import OPTIMIZE, SANITIZE, decompressors, program
from dump_tool import Dump, dump, dump_frames, parse, run

COUNT = 20_000


def capture(count: int = COUNT) -> bytes:
    """Returns records of 16 to 315 bytes of data, so that they fall on every kind of border."""
    records = (build.pcap_record(n, 7, n.to_bytes(4, "big") * (4 + n % 75)) for n in range(count))
    return build.pcap_header() + b"".join(records)


CAPTURE = capture()
ENDS = [24]
for number in range(COUNT):
    ENDS.append(ENDS[-1] + 16 + 4 * (4 + number % 75))


def compress(kind: str, data: bytes) -> bytes:
    if kind == "gzip":
        return gzip.compress(data)
    if kind == "xz":
        return lzma.compress(data, preset=1)
    return subprocess.run(["zstd", "-q", "-c"], input=data, capture_output=True, check=True).stdout


@pytest.fixture(params=["gzip", "xz", "zstd"])
def kind(request: pytest.FixtureRequest) -> str:
    header = {"gzip": "zlib.h", "xz": "lzma.h", "zstd": "zstd.h"}[request.param]
    if header not in decompressors():
        pytest.skip(f"no {header} on this machine")
    if request.param == "zstd" and not shutil.which("zstd"):
        pytest.skip("no zstd: apt install zstd")
    return str(request.param)


def check_whole(made: Dump) -> None:
    assert not made.error
    assert [frame.ts_ns for frame in made.frames] == [n * 10**9 + 7 for n in range(COUNT)]
    assert [frame.caplen for frame in made.frames] == [4 * (4 + n % 75) for n in range(COUNT)]


# --- compressed ---


def test_compressed_file_by_any_name(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "looks-plain.pcap"
    path.write_bytes(compress(kind, CAPTURE))
    made = dump(path)
    check_whole(made)
    assert not made.notice and made.interfaces[0].name == "looks-plain"


def test_compressed_pipe_of_several_members(kind: str) -> None:
    parts = [CAPTURE[:100_001], CAPTURE[100_001:900_000], CAPTURE[900_000:]]
    made = dump("-", stdin=b"".join(compress(kind, part) for part in parts))
    check_whole(made)
    assert not made.notice


def test_cut_compressed_data(kind: str) -> None:
    data = compress(kind, CAPTURE)
    cut = len(data) * 2 // 3
    made = dump("-", stdin=data[:cut])
    assert not made.error and f"the {kind} data are cut off at byte {cut}" in made.notice
    assert 0 < len(made.frames) < COUNT
    assert [frame.ts_ns for frame in made.frames] == [n * 10**9 + 7 for n in range(len(made.frames))]


def test_damaged_compressed_data(kind: str, tmp_path: Path) -> None:
    data = bytearray(compress(kind, CAPTURE))
    middle = len(data) // 2
    data[middle : middle + 64] = bytes(64)
    path = tmp_path / "damaged.pcap"
    path.write_bytes(data)
    made = dump(path)
    assert made.error.startswith(f"{path}: byte ")
    # At least a checksum detects the damage.
    assert f"{kind} data cannot be decompressed" in made.error or "damaged record" in made.error


def test_other_data_after_gzip_data() -> None:
    made = dump("-", stdin=gzip.compress(CAPTURE) + bytes(100))
    check_whole(made)
    assert not made.notice  # padding
    made = dump("-", stdin=gzip.compress(CAPTURE) + b"tail")
    check_whole(made)
    assert "what follows the gzip data at byte" in made.notice


def test_faults_in_compressed_data_name_the_plain_byte() -> None:
    data = build.pcap_header() + build.pcap_record(1, 10**9, b"abc")
    assert dump("-", stdin=gzip.compress(data)).error == (
        "standard input: byte 24 of the decompressed data: damaged record: 1000000000 ns in a second"
    )
    assert dump("-", stdin=gzip.compress(b"")).error == "standard input: is empty when decompressed"


def test_build_without_libraries(tmp_path: Path) -> None:
    """An engine that is built without zlib and the others states what to do."""
    bare = program("tests/c/dump_frames.c", flags=(*SANITIZE, "-UMB_HAVE_ZLIB", "-UMB_HAVE_ZSTD", "-UMB_HAVE_LZMA"))
    path = tmp_path / "x.pcap.gz"
    path.write_bytes(gzip.compress(CAPTURE))
    assert run(bare, path) == (
        1,
        f"error: {path}: gzip data, which this build cannot read: install zlib1g-dev and build mburst again, "
        "or pipe it: gzip -dc FILE | mburst … -\n",
    )


# --- pipes ---


def test_pipe_in_small_pieces(tmp_path: Path) -> None:
    """A slow writer: every border of a piece is inside a record."""
    with subprocess.Popen([dump_frames(), "-"], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as running:
        assert running.stdin and running.stdout
        for at in range(0, ENDS[300], 997):
            running.stdin.write(CAPTURE[at : min(at + 997, ENDS[300])])
            running.stdin.flush()
        running.stdin.close()
        made = parse(running.stdout.read().decode())
    assert not made.notice and len(made.frames) == 300


def test_named_pipe(tmp_path: Path) -> None:
    """The pipe is opened before it has a writer."""
    path = tmp_path / "pipe"
    os.mkfifo(path)
    with ThreadPoolExecutor(1) as pool:
        reading = pool.submit(dump, path)
        path.write_bytes(CAPTURE)
        made = reading.result()
    check_whole(made)
    assert made.interfaces[0].name == "pipe"


def test_late_reads_and_stop(tmp_path: Path) -> None:
    """A silent pipe: reads return in time, and a stop from a signal handler ends them."""
    path = tmp_path / "pipe"
    os.mkfifo(path)
    made = dump("-t", "5", "-s", "150", path)
    assert not made.error and made.late > 0 and made.count == 0
    made = dump("-s", "150", path)  # a read without time limit
    assert not made.error and made.late == 0


def test_stop_between_records() -> None:
    with subprocess.Popen([dump_frames(), "-s", "300", "-"], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as running:
        assert running.stdin and running.stdout
        running.stdin.write(CAPTURE[: ENDS[5] + 3])
        running.stdin.flush()
        made = parse(running.stdout.read().decode())  # the pipe stays open meanwhile
    assert len(made.frames) == 5 and not made.notice


def test_standard_input_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "x.pcap"
    path.write_bytes(CAPTURE)
    with path.open("rb") as stdin:
        done = subprocess.run([dump_frames(), "-"], stdin=stdin, capture_output=True, check=True)
    made = parse(done.stdout.decode())
    check_whole(made)
    assert made.interfaces[0].name == "stdin"


# --- files that change or fail ---


@pytest.mark.parametrize("keep", [0, 24, ENDS[10], ENDS[1000] + 5])
def test_file_that_shrinks(keep: int, tmp_path: Path) -> None:
    """The file is truncated between the read and the use of its frames: no SIGBUS, and an error states it."""
    path = tmp_path / "shrinks.pcap"
    path.write_bytes(CAPTURE)
    with subprocess.Popen(
        [dump_frames(), "-p", path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as running:
        assert running.stdin and running.stdout and running.stderr
        assert running.stdout.readline() == b"paused\n"
        os.truncate(path, keep)
        running.stdin.write(b"\n")
        running.stdin.close()
        output = running.stdout.read().decode()
        assert running.wait() == 1, running.stderr.read().decode()
    made = parse(output)
    assert made.error == f"{path}: byte {keep}: the file shrank to this while it was read"
    assert COUNT > len(made.frames) >= 512


def test_bus_errors_elsewhere_reach_the_previous_handler(tmp_path: Path) -> None:
    path, other = tmp_path / "x.pcap", tmp_path / "other"
    path.write_bytes(CAPTURE)
    other.write_bytes(b"x")
    code, output = run(program("tests/c/bus_error.c"), path, other)
    assert code == 0 and output.splitlines() == [
        "outside: handled",
        f"inside: {path}: byte 0: the file shrank to this while it was read",
        "after: restored",
    ]


def test_file_that_grows_ends_where_it_was(tmp_path: Path) -> None:
    path = tmp_path / "grows.pcap"
    path.write_bytes(CAPTURE[: ENDS[700]])
    with subprocess.Popen([dump_frames(), "-p", path], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as running:
        assert running.stdin and running.stdout
        assert running.stdout.readline() == b"paused\n"
        path.write_bytes(CAPTURE)
        running.stdin.write(b"\n")
        running.stdin.close()
        made = parse(running.stdout.read().decode())
    assert len(made.frames) == 700 and not made.notice


def test_long_file_in_little_memory(tmp_path: Path) -> None:
    """100 MB of mostly holes, mapped and compressed, need far less memory than their size."""
    path = tmp_path / "long.pcap"
    with path.open("wb") as out:
        out.write(build.pcap_header())
        for number in range(400):
            out.write(build.pcap_record(number, 0, b"")[:8] + (250_000).to_bytes(4, "little") * 2)
            out.seek(250_000, os.SEEK_CUR)
        out.truncate()
    packed = tmp_path / "long.pcap.gz"
    with gzip.open(packed, "wb", 1) as zipped, path.open("rb") as plain:
        shutil.copyfileobj(plain, zipped, 1 << 20)
    for name in (path, packed):
        peak = subprocess.run(
            ["/usr/bin/env", "python3", "-c", PEAK, program("tests/c/dump_frames.c", flags=OPTIMIZE), name],
            capture_output=True,
            text=True,
            check=True,
        )
        count, kilobytes = map(int, peak.stdout.split())
        assert count == 400 and kilobytes < 64 << 10


PEAK = """
import resource, subprocess, sys
out = subprocess.run(sys.argv[1:], capture_output=True, text=True, check=True).stdout
print(out.count("frame "), resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
"""


# --- files that are no capture ---


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "is empty"),
        (b"hello, world\nthis is text\n", "byte 0: neither pcap nor pcapng but text"),
        (b"ab", "byte 0: neither pcap nor pcapng but text"),
        (b"address,name\n10.0.0.7,db\n", "`mburst import` takes probes and queue windows, `mburst names` takes names"),
        (bytes(range(1, 30)), "unknown data that begins with 01 02 03 04 05 06 07 08"),
        (bytes(100), "unknown data that begins with 00 00 00 00"),
        (b"snoop\0\0\0\0\0\0\2\0\0\0\4", "a snoop capture: convert it to pcapng with Wireshark's editcap"),
        (b"BZh91AY&SY", "bzip2 data: pipe it: bzip2 -dc FILE | mburst … -"),
        (b"\x04\x22\x4d\x18" + bytes(20), "lz4 data: pipe it: lz4 -dc FILE | mburst … -"),
        (b"\n\r\n\n" + bytes(30), "damaged by a transfer in text mode"),
        (gzip.compress(b"just text", mtime=0), "byte 0 of the decompressed data: neither pcap nor pcapng but text"),
    ],
)
@pytest.mark.parametrize("piped", [False, True])
def test_files_that_are_no_capture_are_refused(data: bytes, words: str, piped: bool, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(data)
    made = dump("-", stdin=data) if piped else dump(path)
    assert words in made.error
    assert made.error.startswith("standard input: " if piped else f"{path}: ")


def test_folders_and_missing_and_unreadable_files(tmp_path: Path) -> None:
    assert dump(tmp_path).error == f"{tmp_path}: is a directory: name the capture files in it"
    assert dump(tmp_path / "no").error == f"{tmp_path}/no: cannot be opened: No such file or directory"
    assert dump("none-such").error == "none-such: no such file or interface: `ip link` lists the interfaces"
    path = tmp_path / "secret.pcap"
    path.write_bytes(CAPTURE)
    path.chmod(0)
    if os.geteuid():
        assert dump(path).error == f"{path}: cannot be opened: Permission denied"
