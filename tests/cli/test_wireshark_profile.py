"""examples/wireshark: tshark loads the profile without a message, and each of its filters and columns is valid."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from places import ROOT

from mburst import capture

PROFILE = ROOT / "examples" / "wireshark" / "mburst"

pytestmark = pytest.mark.skipif(not shutil.which("tshark"), reason="the profile is loaded by tshark")


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """A home folder that has only the profile."""
    shutil.copytree(PROFILE, tmp_path / ".config" / "wireshark" / "profiles" / "mburst")
    return {**os.environ, "HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path / ".config")}


def marked(path: Path) -> Path:
    """Two packets, in and out, the first with a mark."""
    frame = bytes(12) + b"\x08\x00" + bytes.fromhex("45000014000000004011000001020304050607081234567800000000")
    blocks = [
        capture.pcapng_section("mburst", []),
        capture.pcapng_interface("eth0", 1, 128, 10**9, 0),
        capture.pcapng_packet(1_790_000_000_123_456_789, 1514, 1, frame, ["mburst: burst 3 begins: 33 ms"]),
        capture.pcapng_packet(1_790_000_000_123_456_999, 60, 2, frame, []),
    ]
    path.write_bytes(b"".join(blocks))
    return path


def run(environment: dict[str, str], *arguments: str) -> str:
    done = subprocess.run(["tshark", *arguments], capture_output=True, text=True, env=environment, check=True)
    said = [line for line in done.stderr.splitlines() if line and not line.startswith("Running as user")]
    assert said == []
    return done.stdout


def test_the_profile_loads_and_shows_marks_and_directions(environment: dict[str, str], tmp_path: Path) -> None:
    first, second = run(
        environment, "-C", "mburst", "--color", "-r", str(marked(tmp_path / "burst.pcapng"))
    ).splitlines()
    assert "2026-09-21 14:13:20.123456789" in first and "Inbound" in first and "mburst: burst 3 begins: 33 ms" in first
    assert "1514" in first and "Outbound" in second
    ruled = ("-T", "fields", "-e", "frame.coloring_rule.name")
    rules = run(environment, "-C", "mburst", "--color", "-r", str(tmp_path / "burst.pcapng"), *ruled).splitlines()
    assert rules == ["mburst: burst begins or ends", "leaving"]


def test_every_filter_is_valid(environment: dict[str, str], tmp_path: Path) -> None:
    of_colours = [line.split("@")[2] for line in (PROFILE / "colorfilters").read_text().splitlines() if line[0] == "@"]
    rows = [
        re.findall(r'"([^"]*)"', line)
        for name in ("io_graphs", "dfilter_buttons")
        for line in (PROFILE / name).read_text().splitlines()
        if line[0] == '"'
    ]
    filters = [*of_colours, *(row[2].replace(r"\x22", '"') for row in rows)]
    assert len(filters) == 15 and {len(row) for row in rows} == {9, 4}
    command = ["-r", str(marked(tmp_path / "burst.pcapng")), "-Y", " || ".join(f"({one})" for one in filters)]
    assert len(run(environment, *command).splitlines()) == 2
