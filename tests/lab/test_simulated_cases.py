"""Simulated cases from file to bursts: the store matches the simulation to the byte."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mburst.__main__ import main
from mburst.lab.simulate import FrameKind, Scenario, SimulatedCase, simulate
from mburst.lab.simulate.scenario import CACHE
from mburst.sql import StoreFolder

G = 10**9
US = 1000
# Scenario, and the width of bins in which its rounds should be detected: some thirty bins to a round.
CASES: dict[str, tuple[dict[str, Any], int]] = {
    "1G": ({}, 1000 * US),
    "ipv6, vlan, routed, snap length 64": ({"ip_version": 6, "vlan": 7, "routed": True, "snaplen": 64}, 1000 * US),
    "snap length 14": ({"snaplen": 14}, 1000 * US),
    "whole frames, out of order": ({"snaplen": 0, "stamp_jitter_ns": 1500 * US}, 1000 * US),
    "one direction": ({"both_directions": False}, 1000 * US),
    "marks and drops": ({"ecn_threshold_bytes": 200_000, "buffer_bytes": 2_000_000}, 1000 * US),
    "tcp": ({"protocol": "tcp"}, 1000 * US),
    "10G": ({"link_bps": 10 * G, "reaction_jitter_ns": 100 * US, "period_ns": 50_000 * US}, 100 * US),
    "25G, jumbo": (
        {"link_bps": 25 * G, "mtu": 9000, "bytes_per_sender": 10**6, "buffer_bytes": 50 * 10**6,
         "reaction_jitter_ns": 30 * US, "period_ns": 50_000 * US},
        500 * US,
    ),
    "100G": (
        {"link_bps": 100 * G, "reaction_jitter_ns": 10 * US, "period_ns": 5000 * US, "background": 0.01}, 10 * US,
    ),
}  # fmt: skip


@pytest.fixture(scope="module", params=CASES)
def recorded(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[SimulatedCase, int, Path]:
    """A case, the width of its bins, and the store with its capture."""
    how, width_ns = CASES[request.param]
    case = simulate(Scenario(**{"rounds": 4} | how))
    folder = tmp_path_factory.mktemp("case")
    capture, store = case.write(folder)["cache"], folder / "store"
    words = ["--link", f"{case.scenario.link_bps}bps", "--bin", f"{min(width_ns // US, 100)}us"]
    assert main(["record", str(capture), "-o", str(store), *words]) == 0
    return case, width_ns, store


def lanes(case: SimulatedCase, store: Path) -> list[tuple[str, int, Any]]:
    """Returns the recording, the width of its bins and the simulated frames of every direction that was recorded."""
    with StoreFolder.open(store).connect() as connection:
        runs = connection.execute(
            "SELECT recording_id, bin_ns, direction FROM recordings ORDER BY direction"
        ).fetchall()
    sides = {"in": case.incoming(), "out": case.frames[case.frames["src"] == CACHE]}
    assert [direction for *_, direction in runs] == [side for side in sides if len(sides[side])]
    return [(run, width, sides[direction]) for run, width, direction in runs]


def test_bins_count_the_simulated_frames(recorded: tuple[SimulatedCase, int, Path]) -> None:
    case, _, store = recorded
    for run, width, frames in lanes(case, store):
        begins, of_bin = np.unique(frames["ts_ns"] // width * width, return_inverse=True)
        wire = np.maximum(frames["length"], 60) + 24
        columns = [begins, *(np.bincount(of_bin, weights) for weights in (frames["length"], wire, None, frames["ce"]))]
        with StoreFolder.open(store).connect() as connection:
            found = connection.execute(
                "SELECT ts_ns, bytes, wire_bytes, packets, ce_packets FROM bins WHERE recording_id = ? ORDER BY ts_ns",
                [run],
            ).fetchnumpy()
        if case.scenario.snaplen == 14:  # marks are not in the captured bytes
            columns[4] = np.zeros(len(begins))
        for name, expected in zip(found, columns, strict=True):
            assert np.array_equal(found[name], expected.astype(np.int64)), name


def test_senders_are_the_simulated_hosts(recorded: tuple[SimulatedCase, int, Path]) -> None:
    case, _, store = recorded
    for run, _, frames in lanes(case, store):
        expected: dict[str, int] = {}
        for host in np.unique(frames["src"]).tolist():
            name = case.hosts[host].mac if case.scenario.snaplen == 14 else case.hosts[host].address
            expected[name] = int(frames["length"][frames["src"] == host].sum())
        with StoreFolder.open(store).connect() as connection:
            found = connection.execute(
                "SELECT source, sum(bytes) FROM sources WHERE recording_id = ? GROUP BY source", [run]
            )
            assert {source: int(total) for source, total in found.fetchall()} == expected


def test_bursts_are_the_simulated_rounds(
    recorded: tuple[SimulatedCase, int, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    case, width, store = recorded
    us = width // US
    words = ["--bin", f"{us}us", "--threshold", "0.8", "--join", f"{5 * us}us", "--min-duration", f"{2 * us}us"]
    capsys.readouterr()
    assert main(["bursts", str(store), *words, "--json"]) == 0
    bursts = [burst for burst in json.loads(capsys.readouterr().out) if burst["direction"] == "in"]
    assert len(bursts) == len(case.rounds)
    for burst, row in zip(bursts, case.rounds, strict=True):
        # Bins at either end may be too empty to be hot; and background queues behind the answers.
        assert -width <= burst["start_ns"] - row["t_first_ns"] <= 2 * width + case.scenario.stamp_jitter_ns
        assert abs(burst["end_ns"] - row["t_last_ns"]) <= 3 * width
        if not row["dropped"]:
            assert 38 <= burst["fan_in"] <= 40


def test_retransmits_are_the_segments_with_repeated_sequence_numbers(tmp_path: Path) -> None:
    case = simulate(
        Scenario(rounds=2, protocol="tcp", buffer_bytes=3_000_000, period_ns=G, probe_rate=100, background=0)
    )
    assert case.dropped > 100
    went_back = 0
    for sender in np.unique(case.frames["src"][case.frames["kind"] == FrameKind.ANSWER]).tolist():
        seq = case.frames["seq"][case.frames["src"] == sender]
        went_back += int(np.count_nonzero(seq < np.maximum.accumulate(seq)))
    assert main(["record", str(case.write(tmp_path)["cache"]), "-o", str(tmp_path / "store")]) == 0
    with StoreFolder.open(tmp_path / "store").connect() as connection:
        assert connection.execute("SELECT sum(retransmits) FROM bins").fetchall() == [(went_back,)]
