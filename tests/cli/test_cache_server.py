"""The recorded cache-server case, through the commands that a user would type, against its truth."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from mburst.__main__ import main

DEFINITION = ["--bin", "1ms", "--threshold", "0.8", "--join", "5ms", "--min-duration", "3ms"]
UDP_HEADERS = 14 + 20 + 8


@pytest.fixture(scope="module")
def case(captures: Path) -> Path:
    return captures / "cache-server"


@pytest.fixture(scope="module", params=["10us", "100us", "1ms"])
def store(case: Path, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Path:
    folder = tmp_path_factory.mktemp("store") / "store"
    assert main(["record", str(case / "cache.pcap"), "-o", str(folder), "--link", "1G", "--bin", request.param]) == 0
    return folder


@pytest.fixture(scope="module")
def truth(case: Path) -> list[dict[str, str]]:
    with (case / "truth.csv").open() as file:
        return list(csv.DictReader(file))


def test_every_round_is_found_and_nothing_else(store, truth, capsys):
    assert main(["bursts", str(store), *DEFINITION, "--json"]) == 0
    bursts = json.loads(capsys.readouterr().out)
    assert len(bursts) == len(truth) == 78
    for burst, round_ in zip(bursts, truth, strict=True):
        assert abs(burst["start_ns"] - int(round_["t_first_ns"])) <= 1_500_000
        assert abs(burst["end_ns"] - int(round_["t_last_ns"])) <= 1_500_000
        assert burst["fan_in"] == int(round_["n_senders"]) == 40
        assert burst["pattern"] == "incast"
        assert burst["direction"] == "in"


def test_senders_bytes_are_those_of_the_truth_to_the_byte(store, truth, capsys):
    query = ("SELECT sum(bytes) - 42 * sum(packets) AS payload, sum(packets) AS packets, "
             "count(DISTINCT source) AS senders "
             "FROM sources WHERE source IN (SELECT source FROM sources GROUP BY source HAVING sum(bytes) > 7000000)")
    assert main(["sql", str(store), query, "--json"]) == 0
    [sums] = json.loads(capsys.readouterr().out)
    assert sums == {
        "payload": sum(int(round_["bytes_rx"]) for round_ in truth),
        "packets": sum(int(round_["dgrams_rx"]) for round_ in truth),
        "senders": 40,
    }


def test_every_byte_is_accounted_for(store, case, capsys):
    query = ("SELECT (SELECT sum(bytes) FROM bins) AS bins, (SELECT sum(bytes) FROM sources) AS sources, "
             "sum(unattributed_bytes) AS unattributed, sum(bytes) AS bytes, sum(packets) AS packets, "
             "sum(late) AS late FROM recordings")
    assert main(["sql", str(store), query, "--json"]) == 0
    [sums] = json.loads(capsys.readouterr().out)
    assert sums["bins"] == sums["sources"] + sums["unattributed"] == sums["bytes"]
    assert (sums["packets"], sums["late"]) == (232_173, 0)


def test_recording_it_again_adds_nothing(store, case, capsys):
    width = json.loads(_sql(store, "SELECT bin_ns FROM recordings", capsys))[0]["bin_ns"]
    arguments = ["record", str(case / "cache.pcap"), "-o", str(store), "--link", "1G", "--bin", f"{width}ns", "--json"]
    assert main(arguments) == 0
    first = capsys.readouterr().out
    assert main(arguments) == 0
    assert capsys.readouterr().out == first
    assert json.loads(_sql(store, "SELECT count(*) AS n FROM recordings", capsys)) == [{"n": 1}]


def _sql(store: Path, query: str, capsys: pytest.CaptureFixture[str]) -> str:
    capsys.readouterr()
    assert main(["sql", str(store), query, "--json"]) == 0
    return capsys.readouterr().out
