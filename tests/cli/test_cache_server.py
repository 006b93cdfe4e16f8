"""The case of the cache server, simulated and recorded, with the commands that a user would type, against its truth."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from captures import CASES, CacheServer

from mburst.__main__ import main

DEFINITION = ["--bin", "1ms", "--threshold", "0.8", "--join", "5ms", "--min-duration", "3ms"]


@pytest.fixture(scope="module", params=CASES, ids=lambda case: case.name)
def case(request: pytest.FixtureRequest) -> CacheServer:
    return request.param


@pytest.fixture(scope="module", params=["10us", "100us", "1ms"])
def store(case: CacheServer, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Path:
    folder = tmp_path_factory.mktemp("store") / "store"
    assert (
        main(["record", str(case.file("cache.pcap")), "-o", str(folder), "--link", "1G", "--bin", request.param]) == 0
    )
    return folder


@pytest.fixture(scope="module")
def truth(case: CacheServer) -> list[dict[str, str]]:
    return case.truth()


def test_every_incast_is_detected_and_nothing_else(store, case, truth, capsys):
    assert main(["bursts", str(store), *DEFINITION, "--json"]) == 0
    bursts = json.loads(capsys.readouterr().out)
    assert len(bursts) == len(truth) == case.rounds
    for burst, round_ in zip(bursts, truth, strict=True):
        assert abs(burst["start_ns"] - int(round_["t_first_ns"])) <= 1_500_000
        assert abs(burst["end_ns"] - int(round_["t_last_ns"])) <= 1_500_000
        assert int(round_["n_senders"]) == 40
        assert 40 <= burst["fan_in"] <= 40 + case.others
        assert burst["pattern"] == "incast"
        assert burst["direction"] == "in"


def test_bytes_of_senders_equal_the_truth_to_the_byte(store, case, truth, capsys):
    query = (
        "SELECT sum(bytes) - 42 * sum(packets) AS payload, sum(packets) AS packets, "
        "count(DISTINCT source) AS senders "
        f"FROM sources WHERE starts_with(source, '{case.senders}')"
    )
    assert main(["sql", str(store), query, "--json"]) == 0
    [sums] = json.loads(capsys.readouterr().out)
    assert sums == {
        "payload": sum(int(round_["bytes_rx"]) for round_ in truth),
        "packets": sum(int(round_["dgrams_rx"]) for round_ in truth),
        "senders": 40,
    }


def test_every_byte_is_accounted_for(store, case, capsys):
    query = (
        "SELECT (SELECT sum(bytes) FROM bins) AS bins, (SELECT sum(bytes) FROM sources) AS sources, "
        "sum(unattributed_bytes) AS unattributed, sum(bytes) AS bytes, sum(packets) AS packets, "
        "sum(late) AS late FROM recordings"
    )
    assert main(["sql", str(store), query, "--json"]) == 0
    [sums] = json.loads(capsys.readouterr().out)
    assert sums["bins"] == sums["sources"] + sums["unattributed"] == sums["bytes"]
    assert (sums["packets"], sums["late"]) == (case.packets, 0)


def test_recording_the_capture_again_adds_nothing(store, case, capsys):
    recorded = json.loads(_sql(store, "SELECT bin_ns FROM recordings", capsys))
    width = recorded[0]["bin_ns"]
    arguments = [
        "record",
        str(case.file("cache.pcap")),
        "-o",
        str(store),
        "--link",
        "1G",
        "--bin",
        f"{width}ns",
        "--json",
    ]
    assert main(arguments) == 0
    first = capsys.readouterr().out
    assert main(arguments) == 0
    assert capsys.readouterr().out == first
    assert json.loads(_sql(store, "SELECT bin_ns FROM recordings", capsys)) == recorded


def _sql(store: Path, query: str, capsys: pytest.CaptureFixture[str]) -> str:
    capsys.readouterr()
    assert main(["sql", str(store), query, "--json"]) == 0
    return capsys.readouterr().out
