"""`mburst probe` and `mburst reflect` on a rack: bursts affect one path and leave the other alone.

Measurements that load can spoil are repeated at 100 Mb/s (see calm.py).
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from bounded import next_line
from calm import Attempts, Taken, hold

from mburst.__main__ import main
from mburst.lab.rack import Rack
from mburst.lab.rack.plan import API2_IP, API_IP, CACHE2_IP, CACHE_IP

MS = 1_000_000
MBURST = [sys.executable, "-m", "mburst"]


@contextmanager
def probing(rack: Rack, target: str, source: str, store: Path, seconds: float) -> Iterator[list[dict[str, Any]]]:
    """Probes from the API host while the block runs; the list then holds the output of `--json`."""
    payload: list[dict[str, Any]] = []
    process = rack.exec_in(
        rack.plan.namespace("api"),
        [
            *MBURST,
            "probe",
            target,
            "--source",
            source,
            "--rate",
            "1000/s",
            "--duration",
            f"{seconds}s",
            "--host",
            "api",
            "-o",
            str(store),
            "--json",
        ],
        stdout=subprocess.PIPE,
        text=True,
    )
    yield payload
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 0, out
    payload += json.loads(out)


@dataclass(frozen=True)
class Probed:
    """The results of probes in quiet, with bursts, and over the second interface with bursts, each in a store of that
    name."""

    folder: Path
    found: dict[str, dict[str, Any]]


def measure(folder: Path, link: str) -> Probed:
    with Rack(40, link, second_nic=True) as rack:
        reflector = rack.exec_in(rack.plan.namespace("cache"), [*MBURST, "reflect"], stdout=subprocess.PIPE, text=True)
        assert "reflecting" in next_line(reflector)
        with probing(rack, CACHE_IP, API_IP, folder / "quiet", 2) as quiet:
            pass
        with (
            probing(rack, CACHE_IP, API_IP, folder / "bursts", 4) as bursts,
            probing(rack, CACHE2_IP, API2_IP, folder / "second", 4) as second,
        ):
            time.sleep(1)  # the probers run by then
            rack.run_rounds(10)
        reflector.terminate()
        reflector.communicate()
    return Probed(folder, {"quiet": quiet[0], "bursts": bursts[0], "second": second[0]})


def bounds(probed: Probed) -> None:
    """The bounds are for kernel stamps: see the table of what is safe to assert of a rack."""
    found = probed.found
    quiet, busy, second = (found[name]["round_trip"]["p99_ns"] for name in ("quiet", "bursts", "second"))
    assert quiet < 0.2 * MS and 15 * MS <= busy <= 33 * MS and second <= busy / 100, (quiet, busy, second)
    assert 15 * MS <= found["bursts"]["forward"]["p99_ns"] <= 33 * MS
    assert found["bursts"]["back"]["p99_ns"] <= found["bursts"]["forward"]["p99_ns"] / 10
    assert found["bursts"]["clocks"]["uncertainty_ns"] < 0.1 * MS


@pytest.fixture(scope="module")
def measured(can_build: None, tmp_path_factory: pytest.TempPathFactory) -> Taken[Probed]:
    attempts = Attempts(
        *(lambda link=link: measure(tmp_path_factory.mktemp("probed"), link) for link in ("1gbit", "100mbit"))
    )
    return attempts.that_holds(bounds)


def test_probes_wait_behind_bursts_and_not_on_the_second_nic(measured):
    hold(bounds, measured)


def test_every_probe_is_accounted_for(measured):
    for found in measured.result.found.values():
        assert found["sent"] == found["n"] + found["lost"] and found["sent"] > 1500
        assert found["lost"] <= 0.01 * found["sent"] and found["stamps"] == "sw"


def test_compare_says_that_the_second_nic_is_better(measured, capsys):
    """The comparison is of the network's part: application latency includes the stalls of a busy machine."""
    stores = [str(measured.result.folder / name) for name in ("bursts", "second")]
    assert main(["compare", *stores, "--measure", "round_trip", "--json"]) == 0
    payload = json.loads(capsys.readouterr().out)
    assert payload["a"]["n"] > 3000 and payload["verdict"] == "better", payload["summary"]
    assert [level["share"] for level in payload["percentiles"]][:4] == [0.5, 0.9, 0.95, 0.99]
    assert payload["fan_out"][2]["width"] == 100 and payload["fan_out"][2]["b"] < payload["fan_out"][2]["a"]
