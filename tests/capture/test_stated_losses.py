"""Losses that a pcapng file states (isb_ifdrop), from the file to the verdict: they are stated if they are few, and are
a doubt if they may hide traffic of the full port."""

from __future__ import annotations

import json
from pathlib import Path

import capture_builder as build
import latency_cases as cases
import numpy as np
import pytest
from latency_store import ORIGIN, write_probes

from mburst.__main__ import main
from mburst.sql import StoreFolder

WIRE = 24  # bytes of a frame that a capture does not have: FCS, preamble, gap
SETTING = cases.Setting(seconds=12, link_bps=1e8, bin_ns=1_000_000)


def as_pcapng(case: cases.Case, dropped: int) -> bytes:
    """Returns the frames of a case's port, evenly spread in each bin, and at the end the drops that the interface
    reports."""
    port, data = case.scene.crossings[0].port, b"\x02\0\0\0\0\1\x02\0\0\0\0\2\x88\xb5" + bytes(46)
    blocks, at = [build.section(), build.Interface(name="eth0", resolution=9).block()], ORIGIN
    for k, frames in enumerate(np.diff(port.carried) // cases.FRAME):
        for one in range(frames):
            at = ORIGIN + int((k + (one + 0.5) / frames) * port.bin_ns)
            blocks.append(build.enhanced(0, at, data, cases.FRAME - WIRE))
    return b"".join([*blocks, build.statistics(0, at, [(5, dropped)])])


@pytest.mark.parametrize(
    ("dropped", "cause", "said"),
    [(0, "bursts", ""), (40, "bursts", "lost 40 packets: what it counted is a lower bound"),
     (5_000, "undetermined", "the capture lost packets in 100 % of the full stretches that delayed probes")],
)  # fmt: skip
def test_drops_of_an_interface_reach_the_verdict(
    dropped: int, cause: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    case, capture, folder = cases.build("incast", 1, SETTING), tmp_path / "h.pcapng", tmp_path / "s"
    capture.write_bytes(as_pcapng(case, dropped))
    arguments = ["record", "-r", str(capture), "-o", str(folder), "--link", "100M", "--host", "h", "--bin", "1ms"]
    assert main(arguments) == 0
    write_probes(StoreFolder(folder), case)
    capsys.readouterr()
    assert main(["investigate", str(folder), "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["evidence"]["capture"]["dropped"] == dropped
    reasons = " ".join(answer["paths"][0]["reasons"])
    assert answer["cause"] == cause and said in reasons, reasons
    assert dropped or "lost" not in reasons
