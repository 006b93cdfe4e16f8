"""Odd and hostile captures, samples and recorded ones: each is read as by capinfos, or refused in one line."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from dump_tool import Dump, dump, dump_each
from sample_captures import IMPOSSIBLE, IMPOSSIBLE_AT

# What capinfos counts differently, and why. Bytes of pseudo headers that Wireshark does not count in a frame's length:
PSEUDO_HEADERS = {
    "atm-heapoverflow.pcap": 4,  # SunATM
    "atm-oam-heapoverflow.pcap": 4,
}
# A fraction of a second of one second or more: capinfos counts the packet at an invalid time; we stop there.
IMPOSSIBLE_STAMPS = {
    "atm-oam-loopback-print-overrun.pcap": 24,
    "rx_serviceid_oobr.pcap": 111,
    "timestamp_invalid_micro.pcap": 116,
    "timestamp_invalid_nano.pcap": 116,
    IMPOSSIBLE: IMPOSSIBLE_AT,
}


@pytest.fixture(scope="module")
def dumps(odd_captures: list[Path]) -> dict[str, Dump]:
    return {path.name: made for path, made in dump_each(odd_captures).items()}


def test_errors_name_file_and_byte(odd_captures: list[Path], dumps: dict[str, Dump]) -> None:
    for path in odd_captures:
        made = dumps[path.name]
        assert made.count == len(made.frames)
        assert made.bytes == sum(frame.len for frame in made.frames)
        for line in filter(None, (made.error, made.notice)):
            match = re.search(r"\bbyte (\d+)", line)
            assert match and line.startswith(f"{path}: "), line
            assert int(match[1]) <= path.stat().st_size
    refused = {name: made.error for name, made in dumps.items() if made.error}
    assert refused.keys() == IMPOSSIBLE_STAMPS.keys() & dumps.keys()
    for name, error in refused.items():
        assert f"byte {IMPOSSIBLE_STAMPS[name]}: damaged record" in error


def test_totals_agree_with_capinfos(odd_captures: list[Path], dumps: dict[str, Dump]) -> None:
    if not shutil.which("capinfos"):
        pytest.skip("no capinfos: apt install wireshark-common")
    report = subprocess.run(
        ["capinfos", "-M", "-T", "-r", "-c", "-d", *odd_captures], capture_output=True, text=True, check=False
    )
    totals = {}
    for line in report.stdout.splitlines():
        path, packets, data = line.split("\t")
        totals[Path(path).name] = (int(packets), int(data))
    assert len(totals) > 0.97 * len(odd_captures)
    for name, stated in totals.items():
        if name not in IMPOSSIBLE_STAMPS:
            made = dumps[name]
            assert (made.count, made.bytes - PSEUDO_HEADERS.get(name, 0) * made.count) == stated, name


def test_a_pipe_is_read_the_same(odd_captures: list[Path], dumps: dict[str, Dump]) -> None:
    """Every tenth file through a pipe, because each needs a process of its own."""
    for path in odd_captures[::10]:
        piped = dump("-", stdin=path.read_bytes())
        whole = dumps[path.name]
        assert piped.frames == whole.frames
        assert piped.error == whole.error.replace(str(path), "standard input")
        assert piped.notice == whole.notice.replace(str(path), "standard input")
