"""The recorded hostile captures: each is read as capinfos reads it, or refused with one clear line."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from dump_tool import Dump, dump, dump_each

# What capinfos counts otherwise, and why. Bytes of pseudo headers that Wireshark leaves out of a frame's length:
PSEUDO_HEADERS = {
    "atm-heapoverflow.pcap": 4,  # SunATM
    "atm-oam-heapoverflow.pcap": 4,
}
# A fraction of a second of a second or more: capinfos counts the packet under a time that cannot be; we stop there.
IMPOSSIBLE_STAMPS = {
    "atm-oam-loopback-print-overrun.pcap": 24,
    "rx_serviceid_oobr.pcap": 111,
    "timestamp_invalid_micro.pcap": 116,
    "timestamp_invalid_nano.pcap": 116,
}


@pytest.fixture(scope="module")
def wild(captures: Path) -> list[Path]:
    return sorted((captures / "wild").iterdir())


@pytest.fixture(scope="module")
def dumps(wild: list[Path]) -> dict[str, Dump]:
    return {path.name: made for path, made in dump_each(wild).items()}


def test_errors_name_file_and_byte(wild: list[Path], dumps: dict[str, Dump]) -> None:
    for path in wild:
        made = dumps[path.name]
        assert made.count == len(made.frames)
        assert made.bytes == sum(frame.len for frame in made.frames)
        for line in filter(None, (made.error, made.notice)):
            match = re.search(r"\bbyte (\d+)", line)
            assert match and line.startswith(f"{path}: "), line
            assert int(match[1]) <= path.stat().st_size
    refused = {name: made.error for name, made in dumps.items() if made.error}
    assert refused.keys() == IMPOSSIBLE_STAMPS.keys()
    for name, offset in IMPOSSIBLE_STAMPS.items():
        assert f"byte {offset}: damaged record" in refused[name]


def test_totals_agree_with_capinfos(wild: list[Path], dumps: dict[str, Dump]) -> None:
    if not shutil.which("capinfos"):
        pytest.skip("no capinfos: apt install wireshark-common")
    report = subprocess.run(
        ["capinfos", "-M", "-T", "-r", "-c", "-d", *wild], capture_output=True, text=True, check=False
    )
    totals = {}
    for line in report.stdout.splitlines():
        path, packets, data = line.split("\t")
        totals[Path(path).name] = (int(packets), int(data))
    assert len(totals) > 800
    for name, stated in totals.items():
        if name not in IMPOSSIBLE_STAMPS:
            made = dumps[name]
            assert (made.count, made.bytes - PSEUDO_HEADERS.get(name, 0) * made.count) == stated, name


def test_pipe_reads_the_same(wild: list[Path], dumps: dict[str, Dump]) -> None:
    """A sample, since each is a process of its own: every tenth file through a pipe."""
    for path in wild[::10]:
        piped = dump("-", stdin=path.read_bytes())
        whole = dumps[path.name]
        assert piped.frames == whole.frames
        assert piped.error == whole.error.replace(str(path), "standard input")
        assert piped.notice == whole.notice.replace(str(path), "standard input")
